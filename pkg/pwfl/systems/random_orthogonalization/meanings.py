"""A meaning that several columns of the system `random_orthogonalization` share."""

UNDERSTATED = "share of rounds in which (6) is below the exact epsilon"

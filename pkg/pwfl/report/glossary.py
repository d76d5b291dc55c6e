"""The ten terms that a reader of a report needs, as README.md explains them."""

TERMS = {
    "scenario": "a study's set of parameters; a sweep makes one per combination",
    "scheme": "a scheduler with a noise mechanism",
    "realization": "one Monte Carlo draw, the same for all schemes",
    "record": "one protected training example",
    "resource block": "a share of spectrum, for one user per cell",
    "observer": "the adversary: one who sees each message, or only sums",
    "ε, δ": "privacy of a record, or a user, over the whole training",
    "guarantee": "strength of ε: proved (exact or an upper bound for any data), conditional (on assumptions), or none",
    "privacy audit": "tests of the training code against its stated ε",
    "non-private baseline": "a scheme without noise",
}

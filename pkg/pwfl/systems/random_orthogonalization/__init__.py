"""The system `random_orthogonalization`: massive MIMO without channel knowledge at the users (ul Zuhra et al.)."""

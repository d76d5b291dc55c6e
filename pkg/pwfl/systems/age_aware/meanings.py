"""Meanings that several columns of the system `age_aware` share."""

COLLECTED, AGE = "time step at which the client collects its data", "age of the data at time T, in steps"
AMPLIFIED = "the paper's bound (1) on epsilon, with the exact Delta"
CLASSICAL, UNSAFE = "epsilon of the data as collected", "bound (1) with spectral_decay as Delta: no guarantee"
TARGET = "target epsilon of the data at time T"
USERS_CLASSICAL = "epsilon of all records of a client as collected"

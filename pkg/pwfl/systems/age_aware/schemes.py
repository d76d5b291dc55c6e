"""The schemes of the system `age_aware`."""

SWEPT_CLIENTS, SWEPT_EPSILON = 3, 0.3  # of the scheduler `sweep`: the first clients, one after the other (Fig. 2)

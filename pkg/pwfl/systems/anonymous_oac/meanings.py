"""Meanings that several columns of the system `anonymous_oac` share."""

READING = "interpretation of what the observer knows"
BATCH_RECORDS = "mean number of records in a round's batches, b_t"
EMPTY = "number of rounds without any record in a batch"
HIDDEN = "null: a user-defined function sets participation or noise"

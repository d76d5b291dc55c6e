"""Meanings that several columns of the system `utility_fair` share."""

PATH_LOSS, ROUNDS_OUT = "path loss without fading", "number of rounds without participation"
ITERATIONS = "number of local iterations; 0: does not take part"
LARGEST_MULTIPLIER = "largest noise multiplier of a copy: (14) at deviation 1"
UPLOAD_MULTIPLIER = "noise multiplier of an upload"
OF_COPIES, OF_UPLOAD = "exact epsilon of all copies for a device", "exact epsilon of a device's messages in a round"

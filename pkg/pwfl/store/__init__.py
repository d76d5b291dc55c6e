"""Where results are kept: knows bytes, no scenario."""

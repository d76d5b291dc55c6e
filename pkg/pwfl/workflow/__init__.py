"""What a study's jobs are, and what they depend on."""

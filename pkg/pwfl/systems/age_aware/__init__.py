"""The system `age_aware`: scheduling the collection of data that age (Lin et al.)."""

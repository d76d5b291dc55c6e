"""The system `age_aware`: when clients whose data age should collect them (Lin et al.)."""

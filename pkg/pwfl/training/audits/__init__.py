"""The parts of the audit of all linear airs, `pwfl.training.audit`."""

"""The result store, independent of scenarios."""

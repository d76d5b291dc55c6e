"""The process of a job: its threads, devices, user-defined functions and end; independent of scenarios."""

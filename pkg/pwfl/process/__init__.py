"""The process of a job: its threads and devices, the user-defined functions it runs, who ends it; no scenario."""

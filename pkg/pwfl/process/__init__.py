"""What a process of a job is like: its threads, devices and logs, and who ends it. It knows no scenario."""

"""What a stage does around the own module of a system: which stage runs which module of these, `pwfl.stages` says."""

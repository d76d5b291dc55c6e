"""Privacy accounting: (epsilon, delta) of mechanisms, for the stages that calibrate noise and that state guarantees."""

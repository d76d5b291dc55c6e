"""The system `template`: devices send noisy gradients, all of them or those of strongest channel."""

INTERFACE = 3  # of pwfl (docs/own_system.md, "Versions of the interface")

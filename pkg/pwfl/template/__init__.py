"""The system `template`: devices send noisy gradients, all of them or those of strongest channel."""

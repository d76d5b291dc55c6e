"""What mechanisms are worth in (epsilon, delta): shared by the stages that set noise and that account for it."""

"""The systems: each package holds all of one paper, `registry` finds them."""

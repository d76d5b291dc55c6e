"""The systems: one package per paper; `pwfl.registry` finds them."""

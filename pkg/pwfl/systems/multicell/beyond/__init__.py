"""What `multicell` offers beyond its paper: all cells together, block fading, standard path loss, other learning."""

"""What GPUs the node has, read once into an immutable inventory."""

"""L4: what GPUs the node has, read once into an immutable inventory."""

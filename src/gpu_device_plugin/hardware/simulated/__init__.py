"""GPUs that are only described: by a profile, and by lines that make things go wrong on them."""

"""Tells Kubernetes of broken GPUs: events at the node, and a condition of it."""

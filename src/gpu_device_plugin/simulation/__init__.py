"""A simulated node: a kubelet and its pods, for the demo and for tests."""

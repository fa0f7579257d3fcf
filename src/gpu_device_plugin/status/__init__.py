"""What operators see of a node: its status as data, and that as JSON, metrics, probes and a page."""

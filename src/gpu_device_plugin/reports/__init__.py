"""Tells Kubernetes of broken GPUs, by events at the node and a condition of it.

Where to begin: `reporter.HealthReporter`. What is told is decided by pure functions: `notices`
(one happening, one notice), `book` (how often), `condition` (the state in three words). `model`
is what they know of the node. Nothing here is imported unless ``--report-health`` asks for it.
"""

"""Checks and explanations for operators: configurations, nodes, what results and why."""

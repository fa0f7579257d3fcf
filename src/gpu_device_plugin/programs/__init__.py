"""L1: one module per program: options, wiring, exit codes; no logic."""

"""One module per program: options, wiring, exit codes; no logic."""

"""One module per program, and one per command: options, wiring, exit codes; no logic."""

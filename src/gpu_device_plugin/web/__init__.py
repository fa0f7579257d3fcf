"""HTTP/1.1 for probes, metrics and the status page: GET only, small and strict."""

"""Metrics for Prometheus. Imported only where they are served: loads prometheus-client."""

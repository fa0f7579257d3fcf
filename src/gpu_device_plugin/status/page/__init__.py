"""The status page: a node's status as one HTML document."""

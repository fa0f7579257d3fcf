"""Which devices each resource has, and which of them to prefer."""

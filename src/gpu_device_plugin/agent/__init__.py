"""Plugin, labels and following of the configuration in one process."""

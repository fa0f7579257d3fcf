"""Plugin, labels and config following in one process, from one reading of the hardware."""

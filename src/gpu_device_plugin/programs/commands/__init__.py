"""The commands of ``gpu-node``: options, what they do, how they end."""

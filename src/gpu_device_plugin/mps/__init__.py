"""NVIDIA's Multi-Process Service (MPS) for shared GPUs: one control daemon per resource."""

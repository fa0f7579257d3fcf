"""Real GPUs, as NVML tells of them and watches them."""

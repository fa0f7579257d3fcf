"""L2: the device plugin's service: kubelet API, registration, supervision."""

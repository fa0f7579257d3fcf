"""The device plugin's service: kubelet API, registration, supervision."""

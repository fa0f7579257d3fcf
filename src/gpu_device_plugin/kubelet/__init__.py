"""L3: the kubelet's device plugin API: messages and transport."""

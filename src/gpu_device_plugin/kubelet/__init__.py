"""The kubelet's device plugin API: messages and transport."""

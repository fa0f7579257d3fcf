"""``gpu-node demo``: a play of the plugin, a simulated node, a kubelet and pods."""

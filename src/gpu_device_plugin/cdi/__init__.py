"""CDI specifications (Container Device Interface) for what `Allocate` hands out.

`generate.generate` turns options, the inventory and the driver's files into specifications,
`writer.write_specs` puts them where container runtimes look, `names` makes the names and the
annotations of an answer. Nothing is imported here, so that `names` alone stays cheap.

The format is that of the CDI specification 1.1.0 and its library v1.1.0, the content that of
nvidia-container-toolkit v1.19.1, which k8s-device-plugin v0.19.3 uses. Its optional
libnvidia-sandboxutils, which lists a GPU's device nodes in place of sysfs and /dev, is not used.
"""

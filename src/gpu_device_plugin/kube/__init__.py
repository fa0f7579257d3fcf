"""A small client of the Kubernetes API: JSON objects by path, and a watch of one object.

Measured with Python 3.11 over a bare interpreter with asyncio, which the programs have anyway:
this client with h11 adds 1 MB and 5 ms, httpx 5 MB and 60 ms, lightkube 12 MB and 150 ms, aiohttp
14 MB and 140 ms. Label publishing needs four requests and config-manager two, so the small one it
is: h11 does the HTTP/1.1 framing, `ssl` and asyncio streams the rest.

Where to begin: `access.load_access` (kubeconfig or service account), `client.KubeClient`,
`watch.watch_object`; what can go wrong is in `errors`.
"""

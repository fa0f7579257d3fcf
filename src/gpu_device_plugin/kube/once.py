"""A single question to the Kubernetes API, for commands that have no loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from gpu_device_plugin.kube.access import load_access
from gpu_device_plugin.kube.answers import JsonObject
from gpu_device_plugin.kube.client import KubeClient, path
from gpu_device_plugin.kube.errors import ApiUnreachable


def get_node(
    kubeconfig: str, environ: Mapping[str, str], name: str, *, program: str, seconds: float
) -> JsonObject:
    """A node's object of the Kubernetes API.

    Args:
        kubeconfig: path of a file; empty for the access of a pod.
        environ: where a pod finds the API.
        name: of the node.
        program: what is asking, as the API's logs are to have it.
        seconds: how long an answer is waited for.

    Raises:
        KubeError: it is not known how to reach the API, or it does not answer, or refuses.
    """
    return asyncio.run(_get_node(kubeconfig, environ, name, program, seconds))


async def _get_node(
    kubeconfig: str, environ: Mapping[str, str], name: str, program: str, seconds: float
) -> JsonObject:
    access = load_access(kubeconfig, environ)
    try:
        async with (
            asyncio.timeout(seconds),
            KubeClient(access, program=program, request_seconds=seconds) as client,
        ):
            return await client.get(path("api", "v1", "nodes", name))
    except TimeoutError:
        raise ApiUnreachable(f"{access.server} does not answer within {seconds:g} s") from None

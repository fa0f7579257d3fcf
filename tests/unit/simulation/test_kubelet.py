"""The simulated kubelet against plugins on real sockets."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator

import pytest
from support.aio import run
from support.plugins import GPU, Node, a_node, device

from gpu_device_plugin.errors import UserError
from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.kubelet.client import RegistrationRefused, register
from gpu_device_plugin.simulation.admission import AdmissionError
from gpu_device_plugin.simulation.kubelet import SimulatedKubelet, WaitedInVain
from gpu_device_plugin.simulation.pods import Container, PodSpec
from gpu_device_plugin.simulation.views import EventKind


@pytest.fixture
def directory() -> Iterator[str]:
    # pytest's own directories have names too long for a socket.
    with tempfile.TemporaryDirectory(prefix="kubelet-") as path:
        yield path


def test_devices_are_counted_with_health_and_numa_nodes(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a", node=3), device("b", healthy=False)) as node:
            resource = node.kubelet.view().resource(GPU)
            assert (resource.capacity, resource.allocatable, resource.free) == (2, 1, 1)
            assert [d.numa_nodes for d in resource.devices] == [(3,), ()]
            node.plugin.offer(device("a"), device("b"), device("c"))
            assert (await node.allocatable(3)).resource(GPU).lists == 2
            node.plugin.offer()
            view = await node.kubelet.until(lambda v: not v.resource(GPU).capacity, "nothing")
            assert view.resource(GPU).is_connected
        assert node.kinds() == [
            EventKind.STARTED,
            EventKind.REGISTERED,
            EventKind.LIST,
            EventKind.LIST,
            EventKind.LIST,
            EventKind.STOPPED,
        ]
        assert not os.path.lexists(node.kubelet.socket)

    run(story())


def test_a_pod_gets_what_the_plugin_prefers_and_answers(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, *(device(name) for name in "abcd")) as node:
            node.plugin.answer = ["c", "nobody", "a"]
            pod = await node.kubelet.admit(PodSpec.of("pod", {GPU: 2}))
            (assignment,) = pod.assignments
            assert pod.device_ids(GPU) == ("c", "a")
            assert node.plugin.asked == [(["a", "b", "c", "d"], 2)]
            assert assignment.envs == {"DEVICES": "c,a"}
            assert assignment.mounts == (("/h", "/c"),)
            assert assignment.device_nodes == ("/dev/x",)
            assert assignment.annotations == {"a": "b"}
            assert assignment.cdi_devices == ("vendor/class=x",)
            assert not node.plugin.started
            held = {d.id: d.pod for d in node.kubelet.view().resource(GPU).devices}
            assert held == {"a": "pod", "b": "", "c": "pod", "d": ""}

    run(story())


def test_too_short_a_preference_is_filled_up_and_the_last_devices_need_none(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, *(device(name) for name in "abc")) as node:
            node.plugin.answer = ["c"]
            first = await node.kubelet.admit(PodSpec.of("first", {GPU: 2}))
            assert first.device_ids(GPU) == ("c", "a")
            second = await node.kubelet.admit(PodSpec.of("second", {GPU: 1}))
            assert second.device_ids(GPU) == ("b",)
            assert len(node.plugin.asked) == 1

    run(story())


def test_containers_do_not_share_devices(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, *(device(name) for name in "abc")) as node:
            spec = PodSpec("pod", (Container("one", {GPU: 1}), Container("two", {GPU: 2})))
            pod = await node.kubelet.admit(spec)
            assert [a.container for a in pod.assignments] == ["one", "two"]
            assert sorted(pod.device_ids(GPU)) == ["a", "b", "c"]

    run(story())


def test_containers_are_prepared_if_the_plugin_wants_it(directory: str) -> None:
    async def story() -> None:
        node = Node(directory)
        node.plugin.pre_start_required = True
        async with node.kubelet:
            await node.plugin.serve(node.kubelet, device("a"))
            await node.allocatable(1)
            await node.kubelet.admit(PodSpec.of("pod", {GPU: 1}))
            assert node.plugin.started == [["a"]]
        await node.plugin.stop()

    run(story())


def test_what_is_unhealthy_or_taken_is_not_handed_out(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a"), device("b", healthy=False)) as node:
            with pytest.raises(AdmissionError, match="Requested: 2, Available: 1"):
                await node.kubelet.admit(PodSpec.of("large", {GPU: 2}))
            await node.kubelet.admit(PodSpec.of("pod", {GPU: 1}))
            with pytest.raises(AdmissionError, match="Requested: 1, Available: 0"):
                await node.kubelet.admit(PodSpec.of("late", {GPU: 1}))
            with pytest.raises(AdmissionError, match="there is a pod pod already"):
                await node.kubelet.admit(PodSpec.of("pod", {GPU: 0}))
            with pytest.raises(AdmissionError, match=r"no plugin offers example\.com/x"):
                await node.kubelet.admit(PodSpec.of("other", {"example.com/x": 1}))
            assert list(node.kubelet.view().pods) == ["pod"]
            assert node.kinds().count(EventKind.REJECTED) == 4
            node.kubelet.delete(["pod", "nobody"])
            assert node.kubelet.view().resource(GPU).free == 1

    run(story())


def test_errors_of_the_plugin_reject_the_pod(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a"), device("b")) as node:
            node.plugin.problem = "the GPU is gone"
            with pytest.raises(
                AdmissionError, match="GetPreferredAllocation failed: UNKNOWN: the GPU is gone"
            ):
                await node.kubelet.admit(PodSpec.of("one", {GPU: 1}))
            with pytest.raises(AdmissionError, match="Allocate failed: UNKNOWN: the GPU is gone"):
                await node.kubelet.admit(PodSpec.of("both", {GPU: 2}))
            assert node.kubelet.view().resource(GPU).free == 2

    run(story())


def test_a_lost_plugin_leaves_its_devices_unhealthy(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a"), device("b")) as node:
            await node.kubelet.admit(PodSpec.of("pod", {GPU: 1}))
            await node.plugin.stop()
            view = await node.allocatable(0)
            resource = view.resource(GPU)
            assert (resource.capacity, resource.in_use, resource.is_connected) == (2, 1, False)
            assert "pod" in view.pods
            await node.plugin.serve(node.kubelet, device("a"))
            assert (await node.allocatable(1)).resource(GPU).in_use == 1

    run(story())


def test_a_second_registration_takes_the_place_of_the_first(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a")) as node:
            node.plugin.offer(device("b"), device("c"))
            await register(node.kubelet.socket, node.plugin.endpoint, GPU)
            view = await node.allocatable(2)
            assert view.registrations == 2
            assert EventKind.DISCONNECTED not in node.kinds()

    run(story())


def test_a_restart_removes_the_sockets_and_keeps_the_pods(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a")) as node:
            await node.kubelet.admit(PodSpec.of("pod", {GPU: 1}))
            marker = os.path.join(directory, "kubelet_internal_checkpoint")
            os.close(os.open(marker, os.O_CREAT))
            before = os.stat(node.kubelet.socket)
            await node.kubelet.restart()
            after = os.stat(node.kubelet.socket)
            assert (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns)
            assert not os.path.lexists(node.plugin.path)
            assert os.path.exists(marker)
            view = node.kubelet.view()
            assert view.resource(GPU).capacity == 0
            assert "pod" in view.pods
            await node.plugin.serve(node.kubelet, device("a"))
            assert (await node.allocatable(1)).resource(GPU).in_use == 1

    run(story())


def test_dropped_connections_leave_the_registration_socket(directory: str) -> None:
    async def story() -> None:
        async with a_node(directory, device("a")) as node:
            await node.kubelet.drop_connections()
            assert node.kubelet.view().is_running
            assert not node.kubelet.view().resource(GPU).is_connected
            node.plugin.offer(device("a"))
            await register(node.kubelet.socket, node.plugin.endpoint, GPU)
            await node.allocatable(1)

    run(story())


def test_streams_can_be_left_unread(directory: str) -> None:
    async def story() -> None:
        node = Node(directory)
        node.kubelet.reads_streams = False
        async with node.kubelet:
            await node.plugin.serve(node.kubelet, device("a"))
            await node.plugin.stream_opened.wait()
            resource = node.kubelet.view().resource(GPU)
            assert resource.is_connected
            assert not resource.lists
        await node.plugin.stop()

    run(story())


def test_registrations_can_be_refused(directory: str) -> None:
    async def story() -> None:
        node = Node(directory)
        node.kubelet.refusal = "not now"
        async with node.kubelet:
            with pytest.raises(RegistrationRefused, match="UNKNOWN: not now"):
                await node.plugin.serve(node.kubelet, device("a"))
            assert node.kubelet.view().registrations == 1
            assert not node.kubelet.view().resources
            node.kubelet.refusal = ""
            await node.plugin.serve(node.kubelet, device("a"))
            await node.allocatable(1)
        assert EventKind.REFUSED in node.kinds()
        await node.plugin.stop()

    run(story())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": "v1alpha1"}, "version 'v1alpha1' is not supported, v1beta1 is"),
        ({"resource_name": "gpu"}, "'gpu' is not the name of an extended resource"),
        ({"resource_name": "kubernetes.io/gpu"}, "is not the name of an extended resource"),
        ({"endpoint": "../x.sock"}, "'../x.sock' is not the name of a socket"),
        ({"endpoint": "none.sock"}, "no answer from "),
    ],
)
def test_wrong_registrations_are_refused(directory: str, change, message: str) -> None:
    request = pb.RegisterRequest(version="v1beta1", endpoint="x.sock", resource_name=GPU)
    request.MergeFrom(pb.RegisterRequest(**change))

    async def story() -> None:
        async with SimulatedKubelet(directory) as kubelet:
            with pytest.raises(UserError) as error:
                await kubelet.register(request)
            assert message in str(error.value)

    run(story())


def test_waiting_in_vain_says_for_what(directory: str) -> None:
    async def story() -> None:
        kubelet = SimulatedKubelet(directory)
        with pytest.raises(WaitedInVain, match="a miracle: not within 0 s"):
            await kubelet.until(lambda _: False, "a miracle", 0)

    run(story())

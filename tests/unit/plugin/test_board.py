"""What streams are told of the devices."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from support.aio import run

from gpu_device_plugin.kubelet import deviceplugin_pb2 as pb
from gpu_device_plugin.plugin.ailment import Ailment, Severity
from gpu_device_plugin.plugin.board import DeviceBoard
from gpu_device_plugin.resources.model import Device, Resource

A = Device(id="A", index="0", gpu_uuid="A", numa_node=1)
B = Device(id="B", index="1", gpu_uuid="B", gpu_index=1, replicas=2)
XID_48 = Ailment("XID 48", Severity.RECOVERABLE, first=1, last=1)
XID_79 = Ailment("XID 79", Severity.RECOVERABLE, first=2, last=2)
UNWATCHED = Ailment("not watched", Severity.PROVISIONAL, first=0, last=0)
OTHER = Device(id="X", index="9")


def board() -> DeviceBoard:
    return DeviceBoard(Resource("nvidia.com/gpu", (A, B)))


def health(encoded: bytes) -> dict[str, str]:
    return {d.ID: d.health for d in pb.ListAndWatchResponse.FromString(encoded).devices}


async def nothing_follows(lists) -> None:
    following = asyncio.ensure_future(anext(lists))
    await asyncio.sleep(0)
    assert not following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)


ALL_HEALTHY = {"A": "Healthy", "B::0": "Healthy", "B::1": "Healthy"}


def test_a_stream_begins_with_the_whole_list():
    async def work():
        async with aclosing(board().lists()) as lists:
            first = pb.ListAndWatchResponse.FromString(await anext(lists))
        assert [d.ID for d in first.devices] == ["A", "B::0", "B::1"]
        assert [node.ID for node in first.devices[0].topology.nodes] == [1]
        assert not first.devices[1].HasField("topology")

    run(work())


def test_every_stream_is_told_of_a_change_once_with_all_replicas():
    async def work():
        told = board()
        async with aclosing(told.lists()) as one, aclosing(told.lists()) as two:
            assert health(await anext(one)) == health(await anext(two)) == ALL_HEALTHY
            assert told.mark_unhealthy([B, OTHER], XID_79) == [B]
            changed = {"A": "Healthy", "B::0": "Unhealthy", "B::1": "Unhealthy"}
            assert health(await anext(one)) == health(await anext(two)) == changed
            assert told.ailments == {"B": XID_79}

    run(work())


def test_a_slow_stream_gets_the_newest_state_only():
    async def work():
        told = board()
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            told.mark_unhealthy([A], XID_48)
            told.mark_unhealthy([B], XID_79)
            assert set(health(await anext(lists)).values()) == {"Unhealthy"}
            await nothing_follows(lists)

    run(work())


def test_marking_again_is_no_news_but_counts():
    async def work():
        told = board()
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            told.mark_unhealthy([A], XID_48)
            await anext(lists)
            assert told.mark_unhealthy([A], XID_79) == []
            assert told.ailments == {"A": Ailment("XID 48", Severity.RECOVERABLE, 1, 2, count=2)}
            await nothing_follows(lists)

    run(work())


def test_the_firmest_reason_stays():
    told = board()

    told.mark_unhealthy([A], UNWATCHED)
    told.mark_unhealthy([A], XID_79)
    told.mark_unhealthy([A], UNWATCHED)

    assert told.ailments["A"].reason == "XID 79"
    assert told.ailments["A"].severity is Severity.RECOVERABLE
    assert told.ailments["A"].count == 3


def test_an_event_before_the_first_stream_is_not_lost():
    async def work():
        told = board()
        told.mark_unhealthy([A], XID_48)
        async with aclosing(told.lists()) as lists:
            assert health(await anext(lists))["A"] == "Unhealthy"

    run(work())


def test_marks_are_taken_back():
    async def work():
        told = board()
        told.mark_unhealthy([A, B], UNWATCHED)
        told.mark_unhealthy([B], XID_79)
        assert told.ailing(Severity.PROVISIONAL) == [A]
        assert told.mark_healthy([A, OTHER]) == [A]
        async with aclosing(told.lists()) as lists:
            got = health(await anext(lists))
        assert got == {"A": "Healthy", "B::0": "Unhealthy", "B::1": "Unhealthy"}
        assert told.mark_healthy([A]) == []

    run(work())


def test_exchanged_devices_are_one_list_and_what_stays_keeps_its_health():
    async def work():
        told = board()
        new = Device(id="C", index="2")
        told.mark_unhealthy([A, B], XID_79)
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            told.update(Resource("nvidia.com/gpu", (A, new)))
            assert health(await anext(lists)) == {"A": "Unhealthy", "C": "Healthy"}
            assert list(told.ailments) == ["A"]
            told.update(Resource("nvidia.com/gpu", (A, new)))
            await nothing_follows(lists)

    run(work())


def test_a_retired_board_tells_an_empty_list_and_waits_until_it_is_taken():
    async def work():
        told = board()
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            retiring = asyncio.ensure_future(told.retire(5))
            await asyncio.sleep(0)
            assert health(await anext(lists)) == {}
            assert not retiring.done()
            following = asyncio.ensure_future(anext(lists))
            await retiring
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)

    run(work())


def test_retiring_ends_without_readers_and_when_a_reader_never_reads():
    async def work():
        told = board()
        await told.retire(5)
        told = board()
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            await told.retire(0.01)
            assert told.open_streams == 1
        assert told.open_streams == 0

    run(work())


def test_events_about_nothing_here_change_nothing():
    told = board()

    assert told.mark_unhealthy([OTHER], XID_79) == []
    assert told.ailments == {}


def test_only_what_needs_a_reset_outlasts_a_reload():
    told = board()
    firm = Ailment("XID 79", Severity.UNTIL_RESET, first=1, last=2, count=3)

    told.inherit({"A": firm, "B": XID_79, "X": firm})

    assert told.ailments == {"A": firm}


def test_health_belongs_to_the_hardware_whatever_else_is_told_of_it():
    told = board()
    told.mark_unhealthy([A, B], XID_79)
    moved = Device(id="A", index="7", gpu_uuid="A", gpu_index=7, memory_bytes=1)
    other = Device(id="B", index="1", gpu_uuid="another", gpu_index=1, replicas=2)

    told.update(Resource("nvidia.com/gpu", (moved, other)))

    assert list(told.ailments) == ["A"]


def test_a_closed_board_ends_all_streams_also_later_ones_until_it_is_opened():
    async def work():
        told = board()
        async with aclosing(told.lists()) as lists:
            await anext(lists)
            end = asyncio.ensure_future(anext(lists, None))
            await asyncio.sleep(0)
            told.close()
            assert await end is None
        async with aclosing(told.lists()) as later:
            assert await anext(later, None) is None
        assert told.open_streams == 0
        told.open()
        async with aclosing(told.lists()) as lists:
            assert health(await anext(lists)) == ALL_HEALTHY

    run(work())

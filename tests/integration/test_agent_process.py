"""The real gpu-node agent: devices and labels follow the configuration together."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import nvmlsim
from support.agents import NODE, NONE, OBJECT, AgentStage, agree, shared
from support.aio import run, until
from support.apiserver import ApiServer
from support.serving import GPU

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend
from gpu_device_plugin.programs import gpu_node

SOON = "import gpu_device_plugin.agent.agent as agent; agent.FIRST_SIGHT_SECONDS = 0.3"
SHARED = {"gpu__product": "Tesla-T4-SHARED", "gpu__replicas": "4"}
WHOLE = {"gpu__product": "Tesla-T4", "gpu__replicas": "1"}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[AgentStage]:
    with ApiServer() as api:
        yield AgentStage(tmp_path, api)


@pytest.fixture
def alone(tmp_path: Path) -> AgentStage:
    """Without an API."""
    return AgentStage(tmp_path)


async def nothing_happens() -> None:
    """That nothing happens is not announced by anything."""
    await asyncio.sleep(0.1)


def test_the_label_of_the_node_chooses_devices_and_labels_from_the_start(stage):
    """Report k8s-device-plugin#1645: not the default first."""
    stage.label("ts4")

    async def work():
        async with stage.running() as (kubelet, process):
            view = await stage.shows(kubelet, 16, **SHARED)
            assert view.registrations == 1
            process.signal(signal.SIGTERM)
            assert await process.ended(2) == 0
            assert process.log.count("in force: profile='ts4'") == 1
        assert not stage.file.exists()
        assert os.listdir(stage.sockets) == []

    run(work())


def test_devices_and_labels_switch_together(stage):
    stage.label("ts4")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 16, **SHARED)
            async with stage.witnessed(kubelet, agree) as wrong:
                for value, count, labels in (
                    (None, 4, WHOLE),
                    ("ts4", 16, SHARED),
                    ("ts2", 8, SHARED | {"gpu__replicas": "2"}),
                    ("default", 4, WHOLE),
                ):
                    stage.label(value)
                    view = await stage.shows(kubelet, count, **labels)
            assert wrong == []
            assert view.registrations == 5
            assert process.process.returncode is None

    run(work())


def test_a_typo_in_the_label_changes_nothing_and_is_named(stage):
    stage.label("ts4")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 16, **SHARED)
            stage.label("typo")
            await process.logged("names the configuration 'typo', which does not exist")
            await nothing_happens()
            stage.label("ts4")
            await process.logged("the problem with the configuration is over")
            view = await stage.shows(kubelet, 16, **SHARED)
            assert view.registrations == 1
            stage.label("typo")
            stage.swap(default=NONE, ts4=shared(4), typo=shared(3))
            await stage.shows(kubelet, 12, gpu__replicas="3")

    run(work())


def test_a_typo_at_the_start_gives_what_applies_without_a_label(stage):
    stage.label("typo")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 4, **WHOLE)
            await process.logged("what applies to a node without label is used")
            stage.label("ts4")
            await stage.shows(kubelet, 16, **SHARED)

    run(work())


def test_nothing_is_offered_until_there_is_a_configuration(stage):
    stage.label("typo")
    stage.swap(ts4=shared(4), ts2=shared(2))

    async def work():
        async with stage.running(FALLBACK_STRATEGIES="named") as (kubelet, process):
            await process.logged("nothing is offered; tried again with every change")
            assert not stage.labels()
            assert not kubelet.view().registrations
            stage.label("ts4")
            await stage.shows(kubelet, 16, **SHARED)

    run(work())


def test_a_program_that_waits_for_its_first_configuration_can_be_ended(stage):
    stage.swap(ts4=shared(4), ts2=shared(2))

    async def work():
        async with stage.running(FALLBACK_STRATEGIES="named") as (_, process):
            stage.label(None)
            await process.logged("nothing is offered")
            process.signal(signal.SIGHUP)
            process.signal(signal.SIGTERM)
            assert await process.ended(2) == 0

    run(work())


def test_contents_that_change_are_applied_and_equal_ones_are_not(stage):
    """Report gpu-operator#1144: a ConfigMap that is edited."""
    stage.label("ts4")

    async def work():
        async with stage.running() as (kubelet, _):
            await stage.shows(kubelet, 16, **SHARED)
            stage.swap(default=NONE, ts4=shared(4))
            await nothing_happens()
            async with stage.witnessed(kubelet, agree) as wrong:
                stage.swap(default=NONE, ts4=shared(8))
                view = await stage.shows(kubelet, 32, gpu__replicas="8")
            assert view.registrations == 2
            assert wrong == []

    run(work())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version: v9\n", "version"),
        ("flags: {migStrategy: sideways}\n", "migStrategy"),
        ("sharing: {mps: {resources: [{name: nvidia.com/gpu, replicas: 2}]}}\n", "mps-root"),
        ("flags: {deviceDiscoveryStrategy: vfio}\n", "deviceDiscoveryStrategy"),
        (shared(4).replace("name:", "devices: [GPU-none], name:"), "GPU-none"),
    ],
)
def test_a_profile_that_cannot_be_used_is_refused_without_a_disturbance(stage, text, message):
    stage.label("ts4")

    async def work():
        async with stage.running() as (k, process):
            await stage.shows(k, 16, **SHARED)
            stage.swap(default=NONE, ts4=shared(4), bad=text)
            stage.label("bad")
            await process.logged("the last good configuration stays in force")
            assert message in next(line for line in process.lines if "last good" in line)
            view = await stage.shows(k, 16, **SHARED)
            assert view.registrations == 1
            stage.label("default")
            await stage.shows(k, 4, **WHOLE)

    run(work())


def test_a_profile_must_fit_the_hardware(stage):
    stage.environ["GPU_NODE_SIMULATE"] = "dgx-a100-mig"
    stage.swap(default=NONE, single="flags: {migStrategy: single}\n")
    stage.label("default")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.says(gpu__replicas="1")
            stage.label("single")
            await process.logged("the last good configuration stays in force")
            await kubelet.until(lambda view: view.registrations == 1, "no second registration")

    run(work())


def test_what_does_not_fit_at_the_start_is_labelled_and_offers_nothing(stage):
    """Two pods of the original would do as much: the labeller tells, the plugin fails."""
    stage.environ["GPU_NODE_SIMULATE"] = "dgx-a100-mig"
    stage.swap(default=NONE, single="flags: {migStrategy: single}\n")
    stage.label("single")

    async def work():
        async with stage.running() as (kubelet, process):
            await process.logged("nothing is offered until this is mended")
            await until(lambda: stage.labels().get("gpu.product", "").endswith("-MIG-INVALID"))
            assert not kubelet.view().registrations
            while process.log.count("nothing is offered until this") < 2:
                # One that starts anew before the agent waits for it is the first one.
                await kubelet.restart()
                await nothing_happens()
            stage.label("default")
            await kubelet.until(lambda view: view.registrations == 1, "devices")
            await until(lambda: "INVALID" not in stage.labels()["gpu.product"])

    run(work())


def test_what_is_missing_and_no_hardware_is_looked_for_again(alone):
    """Two pods of the original would be started again and again until it is there."""
    channels = alone.root / "driver" / "dev" / "nvidia-caps-imex-channels"
    quick = "import gpu_device_plugin.agent.agent as agent; agent.INIT_RETRY_SECONDS = 0.05"
    arguments = (
        "--imex-channel-ids=0",
        "--imex-required",
        f"--driver-root-ctr-path={alone.root / 'driver'}",
    )
    (alone.root / "driver" / "dev").mkdir(parents=True)

    async def work():
        async with alone.running(*arguments, before=quick) as (kubelet, process):
            await process.logged("nothing is offered until this is mended: IMEX channel 0")
            await alone.says(gpu__count="4")
            assert not kubelet.view().registrations
            channels.mkdir()
            (channels / "channel0").symlink_to("/dev/null")
            await alone.shows(kubelet, 4)

    run(work())


def test_the_api_may_be_away_at_the_start(stage):
    stage.label("ts4")
    assert stage.api is not None
    stage.api.stop()

    async def work():
        async with stage.running(before=SOON) as (kubelet, process):
            await process.logged("going on without its label")
            await stage.shows(kubelet, 4, **WHOLE)
            assert stage.api is not None
            stage.api.start()
            await stage.shows(kubelet, 16, **SHARED)

    run(work())


def test_the_api_may_be_away_later(stage):
    stage.label("ts4")

    async def work():
        assert stage.api is not None
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 16, **SHARED)
            stage.api.stop()
            await process.logged("trying again")
            stage.label("default")
            await nothing_happens()
            await kubelet.restart()
            await stage.shows(kubelet, 16, **SHARED)
            stage.api.start()
            await stage.shows(kubelet, 4, **WHOLE)

    run(work())


def test_a_watch_that_has_expired_begins_anew(stage):
    stage.label("ts4")

    async def work():
        assert stage.api is not None
        async with stage.running() as (kubelet, _):
            await stage.shows(kubelet, 16, **SHARED)
            stage.api.fail("WATCH", "/api/v1/nodes", status=410)
            stage.api.cut_watches()
            stage.label("default")
            await stage.shows(kubelet, 4, **WHOLE)

    run(work())


def test_a_node_that_is_deleted_has_no_label(stage):
    stage.label("ts4")

    async def work():
        assert stage.api is not None
        async with stage.running() as (kubelet, _):
            await stage.shows(kubelet, 16, **SHARED)
            stage.api.store.delete(NODE)
            await stage.shows(kubelet, 4, **WHOLE)

    run(work())


def test_one_file_is_followed_without_a_signal(alone):
    config = alone.root / "config.yaml"
    config.write_text(shared(4))

    async def work():
        async with alone.running(f"--config-file={config}") as (kubelet, process):
            await alone.shows(kubelet, 16, **SHARED)
            config.write_text("version: v9")
            process.signal(signal.SIGHUP)
            await process.logged(f"{config}:1: version")
            config.with_name("fresh").write_text(NONE)
            os.replace(config.with_name("fresh"), config)
            await alone.shows(kubelet, 4, **WHOLE)
            os.unlink(config)
            await process.logged("cannot be read")
            config.write_text(shared(2))
            await alone.shows(kubelet, 8, gpu__replicas="2")

    run(work())


def test_a_signal_reads_everything_anew(alone):
    async def work():
        async with alone.running("--rescan-interval=0", "--no-timestamp") as (kubelet, process):
            await alone.shows(kubelet, 4, **WHOLE)
            alone.happens("init-error the driver is away")
            process.signal(signal.SIGHUP)
            assert await process.ended() == 1
            assert "the driver is away" in process.log

    run(work())


def test_a_configuration_that_is_wrong_at_the_start_ends_the_program(alone):
    config = alone.root / "config.yaml"
    config.write_text("version: v9")

    async def work():
        async with alone.running(f"--config-file={config}") as (_, process):
            assert await process.ended() == 1
            assert f"{config}:1: version" in process.lines[-1]

    run(work())


def test_a_driver_that_is_missing_is_an_error_or_waited_for(alone):
    alone.happens("init-error no driver yet")

    async def work():
        async with alone.running() as (_, process):
            assert await process.ended() == 1
            assert "no driver yet" in process.lines[-1]
        async with alone.running("--fail-on-init-error=false") as (kubelet, process):
            await process.logged("next attempt every")
            await alone.says(vgpu__present="false")
            assert "gpu.count" not in alone.labels()
            alone.happens("init-ok")
            process.signal(signal.SIGHUP)
            await alone.shows(kubelet, 4, gpu__count="4")

    run(work())


def test_mig_devices_that_change_change_devices_and_labels(alone):
    alone.environ["GPU_NODE_SIMULATE"] = "dgx-a100"
    mig = "nvidia.com/mig-1g.5gb"

    async def work():
        arguments = ("--mig-strategy=mixed", "--rescan-interval=100ms")
        async with alone.running(*arguments) as (kubelet, _):
            await alone.shows(kubelet, 8, gpu__count="8")
            assert "mig-1g.5gb.count" not in alone.labels()
            alone.happens("mig 0 1g.5gb,1g.5gb")
            await kubelet.until(lambda view: view.resource(mig).allocatable == 2, "MIG devices")
            await alone.says(mig_1g__5gb__count="2")
            await alone.shows(kubelet, 7)
            alone.happens("mig 0 off")
            await alone.shows(kubelet, 8, gpu__count="8")
            await until(lambda: "mig-1g.5gb.count" not in alone.labels())

    run(work())


def test_a_gpu_that_is_lost_is_lost_to_devices_and_labels(alone):
    """The health of a GPU is a reason to read the hardware, without a rescan in between."""

    async def work():
        async with alone.running("--rescan-interval=0") as (kubelet, process):
            await process.logged("GPU health is being watched")
            await alone.shows(kubelet, 4, gpu__count="4")
            alone.happens("lost 2")
            await alone.shows(kubelet, 3, gpu__count="3")
            await process.logged("GPU 2 cannot be read")
            view = kubelet.view().resource(GPU)
            assert view.capacity == 4

    run(work())


def test_a_kubelet_that_starts_anew_gets_everything_and_the_labels_stay(stage):
    stage.label("ts4")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 16, **SHARED)
            before = stage.labels()
            await kubelet.restart()
            await process.logged("the kubelet has started")
            await stage.shows(kubelet, 16)
            assert stage.labels() == before

    run(work())


def test_a_kubelet_that_starts_anew_while_the_label_changes_gets_what_the_label_says(stage):
    stage.label("default")

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 4)
            for number in range(12):
                name, replicas = [("ts4", 4), ("ts2", 2), ("default", 1)][number % 3]
                await kubelet.stop()
                stage.label(name)
                # From before the label is seen to after everything is served.
                await asyncio.sleep(0.01 * number)
                await kubelet.start()
                await stage.shows(kubelet, 4 * replicas, gpu__replicas=str(replicas))
            assert "Traceback" not in process.log

    run(work())


def test_labels_that_cannot_be_written_do_not_stop_devices(stage):
    stage.label("ts4")
    directory = stage.file.parent
    directory.rmdir()

    async def work():
        async with stage.running() as (kubelet, process):
            await stage.shows(kubelet, 16)
            await process.logged(f"labels cannot be written to {stage.file}")
            stage.label("default")
            await stage.shows(kubelet, 4)
            directory.mkdir()
            await stage.says(**WHOLE)
            await process.logged("the labels are out again")

    run(work())


def test_a_nodefeature_object_that_is_forbidden_does_not_stop_devices(stage):
    stage.label("ts4")
    stage.environ["USE_NODE_FEATURE_API"] = "true"
    assert stage.api is not None
    stage.api.denied.add("create nodefeatures")

    async def work():
        assert stage.api is not None
        async with stage.running() as (kubelet, process):
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 16, "16")
            await process.logged("forbidden")
            stage.label("default")
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 4, "4")
            stage.api.denied.clear()
            await until(lambda: stage.published().get("gpu.replicas") == "1")
            stage.label("ts4")
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 16, "16")
            await until(lambda: stage.published()["gpu.product"] == "Tesla-T4-SHARED")
            process.signal(signal.SIGTERM)
            assert await process.ended(2) == 0
            assert OBJECT in stage.api.store.objects

    run(work())


def test_an_api_that_does_not_answer_does_not_hold_devices_up(stage):
    stage.label("ts4")
    stage.environ["USE_NODE_FEATURE_API"] = "true"
    assert stage.api is not None
    stage.api.fail("GET", OBJECT, hang=True)

    async def work():
        async with stage.running() as (kubelet, process):
            await kubelet.until(lambda view: view.resource(GPU).allocatable == 16, "16")
            assert not stage.published()
            process.signal(signal.SIGTERM)
            assert await process.ended(2) == 0

    run(work())


def test_an_api_that_cannot_be_asked_does_not_stop_devices(alone):
    alone.environ |= {"USE_NODE_FEATURE_API": "true", "KUBECONFIG": "/nowhere/kubeconfig"}

    async def work():
        async with alone.running() as (kubelet, process):
            await alone.shows(kubelet, 4)
            await process.logged("/nowhere/kubeconfig")
            assert process.process.returncode is None

    run(work())


def test_labels_can_be_left_to_another(stage):
    stage.label("ts4")

    async def work():
        async with stage.running("--publish-labels=false") as (kubelet, _):
            await stage.shows(kubelet, 16)
            stage.label("default")
            await stage.shows(kubelet, 4)
            assert not stage.labels()

    run(work())


def test_a_place_for_labels_that_changes_with_the_profile_is_cleared(stage):
    other = stage.file.with_name("other")
    stage.swap(default=NONE, other=f"flags: {{gfd: {{outputFile: {other}}}}}\n")
    del stage.environ["GFD_OUTPUT_FILE"]
    stage.swap(
        default=f"flags: {{gfd: {{outputFile: {stage.file}}}}}\n",
        other=f"flags: {{gfd: {{outputFile: {other}, oneshot: true}}}}\n",
    )
    stage.label(None)

    async def work():
        async with stage.running() as (_, process):
            await stage.says(**WHOLE)
            stage.label("other")
            await until(other.exists)
            await until(lambda: not stage.file.exists())
            assert "flags.gfd.oneshot: without effect" in process.log

    run(work())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node-name="], "invalid node-name: must not be empty"),
        (["--node-label="], "invalid node-label: must not be empty"),
        (["--fallback-strategies=some"], '"some" is not one'),
        (["--kubeconfig=/nowhere"], "/nowhere"),
        (["--plugin-directory=/nowhere"], "--plugin-directory (GPU_NODE_PLUGIN_DIR)"),
        (["--oneshot"], "--oneshot"),
    ],
)
def test_mistakes_are_one_line_and_end_the_program(stage, arguments, message):
    async def work():
        async with stage.agent(*arguments) as process:
            assert await process.ended() == 1
            assert message in process.log

    run(work())


def test_a_file_beside_a_label_is_said_to_have_no_effect(stage):
    stage.label("ts4")

    async def work():
        async with stage.running(CONFIG_FILE="/config/config.yaml") as (kubelet, process):
            await stage.shows(kubelet, 16, **SHARED)
            assert "CONFIG_FILE: without effect" in process.log

    run(work())


def test_the_agent_has_a_help_and_a_version_of_its_own(capsys):
    assert gpu_node.run(["agent", "--help"]) == 0
    assert "--config-file-srcdir DIR" in capsys.readouterr().out
    assert gpu_node.run(["agent", "-version"]) == 0
    assert capsys.readouterr().out.startswith("GPU Node Agent version v")
    with pytest.raises(SystemExit):
        gpu_node.run(["--help"])
    assert "serve the devices of this node" in capsys.readouterr().out


@pytest.mark.skipif(nvmlsim.COMPILER is None, reason="no C compiler for the NVML simulator")
def test_nvml_is_read_once_for_devices_and_labels(alone):
    simulated = SimulatedBackend.from_profile("dgx-a100")
    inventory = simulated.read()
    links = simulated.read_links(inventory, lambda: False)
    profile, events = alone.root / "profile", alone.root / "nvml-events"
    profile.write_text(nvmlsim.profile_text(inventory, links))
    events.touch()
    alone.environ |= {
        "GPU_NODE_SIMULATE": "",
        "LD_LIBRARY_PATH": str(nvmlsim.build().parent),
        "NVMLSIM_PROFILE": str(profile),
        "NVMLSIM_EVENTS": str(events),
        "DEVICE_DISCOVERY_STRATEGY": "nvml",
    }

    async def work():
        async with alone.running("--rescan-interval=0") as (kubelet, process):
            await alone.shows(kubelet, 8, gpu__count="8", gpu__memory="40960")
            await process.logged("GPU health is being watched")
            events.write_text("fail nvmlDeviceGetHandleByIndex@2 15\nxid 2 79\n")
            await alone.shows(kubelet, 7, gpu__count="7")
            assert kubelet.view().resource(GPU).capacity == 8
            process.signal(signal.SIGTERM)
            assert await process.ended(3) == 0

    run(work())

"""The real gpu-feature-discovery: files, signals, the Kubernetes API, the C simulator of NVML."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import nvmlsim
from support.aio import run, until
from support.apiserver import ApiServer
from support.certificates import OPENSSL, make_certificates

from gpu_device_plugin.hardware.simulated.backend import SimulatedBackend

RUN = "from gpu_device_plugin.programs.gpu_feature_discovery import main; main()"
OBJECT = "/apis/nfd.k8s-sigs.io/v1alpha1/namespaces/default/nodefeatures/nvidia-features-for-node1"
CONFIG = "sharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: %d}]}}\n"


@dataclass
class Program:
    """A running gpu-feature-discovery."""

    process: asyncio.subprocess.Process
    lines: list[str] = field(default_factory=list)
    output: str = ""

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    async def logged(self, text: str) -> None:
        try:
            await until(lambda: text in self.log)
        except TimeoutError:
            raise AssertionError(f"not in the log: {text}\n{self.log}") from None

    async def ended(self) -> int:
        async with asyncio.timeout(10):
            return await self.process.wait()

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.ended()

    async def follow(self) -> None:
        assert self.process.stderr is not None
        async for line in self.process.stderr:
            self.lines.append(line.decode().rstrip("\n"))

    async def collect(self) -> None:
        assert self.process.stdout is not None
        self.output = (await self.process.stdout.read()).decode()


def environment(**changes: str) -> dict[str, str]:
    ours = ("GFD_", "NODE_NAME", "KUBE", "CONFIG_FILE", "GPU_NODE_")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(ours)}
    return {**kept, "PYTHONWARNINGS": "error", **changes}


@asynccontextmanager
async def gfd(*arguments: str, **environ: str) -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "dev", "-c", RUN, *arguments),
        env=environment(**environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    program = Program(process)
    readers = asyncio.gather(program.follow(), program.collect())
    try:
        yield program
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await readers
        sys.stdout.write(program.log)
        assert "Traceback" not in program.log
        assert "Warning" not in program.log


@dataclass
class File:
    """A feature file, and the flags to write it."""

    path: Path
    profile: str = "t4x4"

    @property
    def flags(self) -> tuple[str, ...]:
        return (
            f"--simulate={self.profile}",
            "--use-node-feature-api=false",
            f"--output-file={self.path}",
        )

    def label(self, key: str) -> str | None:
        try:
            lines = self.path.read_text().splitlines()
        except FileNotFoundError:
            return None
        return dict(line.split("=", 1) for line in lines).get(f"nvidia.com/{key}")

    def has(self, key: str, value: str) -> Callable[[], bool]:
        return lambda: self.label(key) == value


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "gfd")


def test_one_pass_leaves_a_file_behind(file: File) -> None:
    async def work() -> None:
        async with gfd("--oneshot", *file.flags) as program:
            assert await program.ended() == 0
        assert "published 26 labels" in program.log
        assert program.output == ""

    run(work())
    assert file.label("gpu.product") == "Tesla-T4"
    assert file.label("gpu.machine") == "PowerEdge-R740xd"
    lines = file.path.read_text().splitlines()
    assert lines == sorted(lines)


def test_without_a_file_the_labels_are_printed(file: File) -> None:
    async def work() -> None:
        async with gfd("--oneshot", *file.flags[:2], "--output-file=", "--no-timestamp") as program:
            assert await program.ended() == 0
        assert "nvidia.com/gpu.count=4\n" in program.output
        assert "timestamp" not in program.output

    run(work())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_file_is_removed_when_a_daemon_ends(file: File, number: signal.Signals) -> None:
    async def work() -> None:
        async with gfd(*file.flags) as program:
            await until(file.has("gpu.count", "4"))
            assert await program.stop(number) == 0

    run(work())
    assert os.listdir(file.path.parent) == []


def test_but_not_if_it_would_not_come_back(file: File) -> None:
    async def work() -> None:
        async with gfd(*file.flags, "--sleep-interval=infinite") as program:
            await until(file.has("gpu.count", "4"))
            assert await program.stop() == 0

    run(work())
    assert file.label("gpu.count") == "4"


def test_a_reload_never_takes_the_labels_away(file: File, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG % 2)

    async def work() -> None:
        async with gfd(*file.flags, f"--config-file={config}", "--sleep-interval=1h") as program:
            await until(file.has("gpu.replicas", "2"))
            with file.path.open() as held:
                config.write_text(CONFIG % 5)
                program.process.send_signal(signal.SIGHUP)
                # The link count of the old file falls to 0 at the moment of the replacement.
                await until(lambda: os.fstat(held.fileno()).st_nlink == 0)
                assert file.label("gpu.replicas") == "5"
            config.write_text("version: v9\n")
            program.process.send_signal(signal.SIGHUP)
            await program.logged("the last good configuration stays in force")
            assert file.label("gpu.replicas") == "5"
            assert await program.stop() == 0

    run(work())


def test_a_reload_may_move_the_labels_to_another_file(file: File, tmp_path: Path) -> None:
    config, other = tmp_path / "config.yaml", File(tmp_path / "other")
    config.write_text(f"flags: {{gfd: {{outputFile: {file.path}}}}}\n")

    async def work() -> None:
        async with gfd(*file.flags[:2], f"--config-file={config}") as program:
            await until(file.has("gpu.count", "4"))
            config.write_text(f"flags: {{gfd: {{outputFile: {other.path}}}}}\n")
            program.process.send_signal(signal.SIGHUP)
            await until(lambda: not file.path.exists())
            assert other.label("gpu.count") == "4"
            assert await program.stop() == 0
        assert not other.path.exists()

    run(work())


def test_a_changed_mig_layout_and_a_lost_gpu_show(file: File, tmp_path: Path) -> None:
    events = tmp_path / "events"
    file.profile = "dgx-a100"
    arguments = (*file.flags, "--mig-strategy=mixed", "--sleep-interval=100ms")

    async def work() -> None:
        async with gfd(*arguments, GPU_NODE_SIMULATE_EVENTS=str(events)) as program:
            await until(file.has("gpu.count", "8"))
            events.write_text("mig 0 3g.20gb,3g.20gb\n")
            await until(file.has("mig-3g.20gb.count", "2"))
            with events.open("a") as more:
                more.write("mig 0 7g.40gb\nlost 3\n")
            await until(file.has("gpu.count", "7"))
            assert file.label("mig-3g.20gb.count") is None
            assert file.label("mig-7g.40gb.count") == "1"
            assert await program.stop() == 0
        assert program.log.count("GPU 3 cannot be read: GPU is lost") == 1

    run(work())


def test_a_driver_that_comes_late_is_found_soon(file: File, tmp_path: Path) -> None:
    events = tmp_path / "events"
    file.profile = "no-driver"
    arguments = (*file.flags, "--fail-on-init-error=false", "--sleep-interval=1h")

    async def work() -> None:
        async with gfd(*arguments, GPU_NODE_SIMULATE_EVENTS=str(events)) as program:
            await until(file.has("vgpu.present", "false"))
            assert file.label("gpu.count") is None
            events.write_text("init-ok\n")
            await until(file.has("gpu.count", "8"))
            assert await program.stop() == 0

    run(work())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--oneshot", "--use-node-feature-api=false", "--simulate=no-driver"],
            "Driver Not Loaded",
        ),
        (["--use-node-feature-api=false", "--simulate=t4x4", "-o=/absent/gfd"], "--output-file"),
        (["--simulate=t4x4"], "NODE_NAME"),
        (["--simulate=t4x4", "--node-name=n"], "--kubeconfig"),
        (["--simulate=t4x4", "--node-name=n", "--kubeconfig=/absent"], "/absent"),
        (["--simulate=t4x4", "--node-name=n", "--kubeconfig=/dev/null"], "/dev/null"),
        (["--device-discovery-strategy=guess", "--node-name=n"], "auto, nvml, tegra, vfio"),
        (["--oneshot", "--use-node-feature-api=false", "--simulate=nothing"], "t4x4"),
        (
            ["--use-node-feature-api=false", "--simulate=t4x4", "--mig-strategy=some"],
            "none, single, mixed",
        ),
    ],
)
def test_what_cannot_work_is_told_in_one_line(arguments: list[str], words: str) -> None:
    async def work() -> None:
        async with gfd(*arguments) as program:
            assert await program.ended() == 1
        assert program.lines[-1].startswith("E")
        assert words in program.lines[-1]
        assert sum(line.startswith(("E", "W")) for line in program.lines) == 1

    run(work())


def test_a_signal_in_the_middle_of_the_start_ends_it(file: File) -> None:
    async def work() -> None:
        async with gfd(*file.flags) as program:
            await program.logged("starting gpu-feature-discovery")
            assert await program.stop() in {0, -signal.SIGTERM}

    run(work())


def test_a_file_needs_neither_kubernetes_client_nor_nvml(file: File) -> None:
    code = (
        "import sys\n"
        "from gpu_device_plugin.programs import gpu_feature_discovery as program\n"
        "try:\n    program.main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    heavy = {'h11', 'pynvml', 'grpclib', 'google', 'http.client', 'email'}\n"
        "    print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "--oneshot", *file.flags],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "[]\n"


class TestApi:
    @pytest.fixture
    def api(self) -> Iterator[ApiServer]:
        with ApiServer(tokens={"one"}) as server:
            yield server

    def flags(self, api: ApiServer, directory: Path, *more: str) -> tuple[str, ...]:
        token = directory / "token"
        if not token.exists():
            token.write_text("one")
        kubeconfig = api.kubeconfig(directory, token_file=str(token))
        return ("--simulate=t4x4", f"--kubeconfig={kubeconfig}", "--node-name=node1", *more)

    def count(self, api: ApiServer) -> str | None:
        item = api.store.objects.get(OBJECT)
        return None if item is None else item["spec"]["labels"].get("nvidia.com/gpu.count")

    @pytest.mark.skipif(OPENSSL is None, reason="no openssl command to make certificates with")
    def test_labels_are_published_over_tls(self, tmp_path: Path) -> None:
        certificates = make_certificates(tmp_path / "certificates")

        async def work(api: ApiServer) -> None:
            async with gfd("--oneshot", *self.flags(api, tmp_path)) as program:
                assert await program.ended() == 0

        with ApiServer(tokens={"one"}, certificates=certificates) as api:
            run(work(api))
            assert self.count(api) == "4"
            agent = api.seen[0].headers["user-agent"]
            assert agent.startswith("gpu-feature-discovery/v")

    def test_an_api_that_is_down_and_a_token_that_changes_lose_nothing(
        self, api: ApiServer, tmp_path: Path
    ) -> None:
        events = tmp_path / "events"
        flags = self.flags(api, tmp_path, "--sleep-interval=200ms")

        async def work() -> None:
            async with gfd(*flags, GPU_NODE_SIMULATE_EVENTS=str(events)) as program:
                await until(lambda: self.count(api) == "4")
                api.stop()
                events.write_text("lost 3\n")
                await program.logged("connection refused; trying again")
                api.start()
                await until(lambda: self.count(api) == "3")
                api.tokens = {"two"}
                await program.logged("401 Unauthorized")
                (tmp_path / "token").write_text("two")
                with events.open("a") as more:
                    more.write("back 3\n")
                await until(lambda: self.count(api) == "4")
                assert await program.stop() == 0

        run(work())
        assert self.count(api) == "4"

    def test_rights_that_come_late_are_awaited(self, api: ApiServer, tmp_path: Path) -> None:
        api.denied = {"create nodefeatures"}

        async def work() -> None:
            async with gfd(*self.flags(api, tmp_path)) as program:
                await program.logged("403 Forbidden")
                assert "ClusterRole" in program.log
                api.denied = set()
                await until(lambda: self.count(api) == "4")

        run(work())

    def test_a_single_pass_fails_at_once_over_missing_rights(
        self, api: ApiServer, tmp_path: Path
    ) -> None:
        api.denied = {"get nodefeatures"}

        async def work() -> None:
            async with gfd("--oneshot", *self.flags(api, tmp_path)) as program:
                assert await program.ended() == 1
            assert "403 Forbidden" in program.lines[-1]

        run(work())
        assert api.count("GET", OBJECT) == 1


class TestNvml:
    @pytest.fixture
    def node(self, tmp_path: Path) -> dict[str, str]:
        """The environment in which NVML is found by its name, with a node behind it."""
        if nvmlsim.COMPILER is None:
            pytest.skip("no C compiler to build the NVML simulator with")
        simulated = SimulatedBackend.from_profile("dgx-a100-mig-single")
        inventory = simulated.read()
        links = simulated.read_links(inventory, lambda: False)
        self.describe(tmp_path, nvmlsim.profile_text(inventory, links))
        directory = nvmlsim.build().parent
        return {"LD_LIBRARY_PATH": str(directory), "NVMLSIM_PROFILE": str(tmp_path / "profile")}

    def describe(self, directory: Path, text: str) -> None:
        fresh = directory / "profile.new"
        fresh.write_text(text)
        os.replace(fresh, directory / "profile")

    def test_the_driver_is_found_by_its_plain_name(self, file: File, node: dict[str, str]) -> None:
        arguments = ("--oneshot", *file.flags[1:], "--mig-strategy=single")

        async def work() -> None:
            async with gfd(*arguments, "--driver-root-ctr-path=/absent", **node) as program:
                assert await program.ended() == 0

        run(work())
        assert file.label("gpu.product") == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
        assert file.label("cuda.driver.major") == "550"

    def test_a_driver_that_is_upgraded_is_seen_and_one_that_fails_costs_little(
        self, file: File, node: dict[str, str], tmp_path: Path
    ) -> None:
        text = (tmp_path / "profile").read_text()

        async def work() -> None:
            async with gfd(*file.flags[1:], "--sleep-interval=100ms", **node) as program:
                await until(file.has("cuda.driver.major", "550"))
                self.describe(tmp_path, text.replace("driver_version 550", "driver_version 575"))
                await until(file.has("cuda.driver.major", "575"))
                fail = "fail nvmlDeviceGetMemoryInfo 3\nfail nvmlSystemGetDriverVersion 999\n"
                self.describe(tmp_path, fail + text)
                await until(lambda: file.label("gpu.memory") is None)
                assert file.label("cuda.driver.major") is None
                assert file.label("gpu.count") == "8"
                self.describe(tmp_path, text)
                await until(file.has("gpu.memory", "40960"))
                assert await program.stop() == 0
            assert program.log.count("NVML does not tell the memory of GPU 0") == 1
            assert "no longer: the version of the driver cannot be read" in program.log

        run(work())

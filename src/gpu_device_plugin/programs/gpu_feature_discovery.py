"""``gpu-feature-discovery``: labels the node with what its GPUs are."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpu_device_plugin import __version__
from gpu_device_plugin.config.durations import INFINITE
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config, GfdFlags
from gpu_device_plugin.config.options import PROGRAMS, Program
from gpu_device_plugin.config.render import render
from gpu_device_plugin.config.validate import validate_labels
from gpu_device_plugin.hardware.node_facts import NodeSource, open_source
from gpu_device_plugin.labels.facts import FactReader
from gpu_device_plugin.labels.output import FileOutput, Output, StreamOutput
from gpu_device_plugin.labels.service import LabelService
from gpu_device_plugin.labels.work import Work
from gpu_device_plugin.programs.common import load_with_origins, run_program
from gpu_device_plugin.programs.entry import leave
from gpu_device_plugin.programs.listening import prepare_port

if TYPE_CHECKING:
    from gpu_device_plugin.kube.client import KubeClient
    from gpu_device_plugin.status.reporter import Reporter

log = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the program and exits."""
    leave(run_program(Program.GPU_FEATURE_DISCOVERY, label, argv))


def label(parsed: Parsed) -> None:
    """Labels the node until a signal comes, or once.

    Raises:
        UserError: the node cannot be labelled.
    """
    log.info("starting gpu-feature-discovery v%s", __version__)

    port = prepare_port(parsed)

    async def serve() -> None:
        service = LabelService(lambda: set_up(parsed), tell=port.tell)
        async with port.open(lambda reporter: describe(service, reporter)):
            await service.run()

    asyncio.run(serve())


def describe(service: LabelService, reporter: Reporter) -> None:
    """Tells a reporter where it learns how labelling is going."""
    from gpu_device_plugin.status import of_labels  # noqa: PLC0415 - only for the port

    reporter.labelling = partial(of_labels.labelling, service)
    reporter.configuration = partial(of_labels.labels_configuration, service)
    reporter.ready = partial(of_labels.labels_readiness, service)


def set_up(parsed: Parsed) -> Work:
    """What the configuration comes to, which is read anew.

    Raises:
        ConfigError: the configuration cannot be used.
    """
    loaded = load_with_origins(parsed)
    config = loaded.config
    validate_labels(config, parsed, loaded.origins)
    log.info("running with configuration:\n%s", render(config))
    return make_work(parsed, loaded)


def make_work(
    parsed: Parsed,
    loaded: Loaded,
    source: NodeSource | None = None,
    client: KubeClient | None = None,
) -> Work:
    """What a configuration comes to.

    Args:
        parsed: the options of this program, or of one that has them too.
        loaded: the configuration.
        source: reads the GPUs, where that is not for the options to say.
        client: of the Kubernetes API, where there is one already.

    Raises:
        ConfigError: the Kubernetes API cannot be used as told.
    """
    config = loaded.config
    reader = make_reader(parsed, config, source)
    output = make_output(parsed, config, client)
    return Work(config, reader, output, loaded.origins, loaded)


def make_reader(parsed: Parsed, config: Config, source: NodeSource | None = None) -> FactReader:
    """How the node is read."""
    flags = config.flags.gfd or GfdFlags()
    machine_file = flags.machine_type_file or ""
    options = PROGRAMS[Program.GPU_FEATURE_DISCOVERY]
    strategy = config.flags.device_discovery_strategy or ""
    return FactReader(
        source=source or open_source(strategy, parsed.text("simulate")),
        machine_type_file=machine_file,
        use_machine_of_source=machine_file == options.option("machine-type-file").default,
        tolerates_no_driver=not config.flags.fail_on_init_error,
    )


def make_output(parsed: Parsed, config: Config, client: KubeClient | None = None) -> Output:
    """Where the labels go.

    Raises:
        ConfigError: the Kubernetes API cannot be used as told.
    """
    if config.flags.use_node_feature_api:
        return _node_feature(parsed, client)
    flags = config.flags.gfd or GfdFlags()
    if not flags.output_file:
        return StreamOutput()
    # As in the original the file stays if nothing would bring it back after a restart.
    is_lasting = bool(flags.oneshot) or flags.sleep_interval == INFINITE
    keep = is_lasting or parsed.flag("keep-output-file")
    return FileOutput(flags.output_file, keep=keep)


def open_client(parsed: Parsed, program: str) -> KubeClient:
    """A client of the Kubernetes API as the options say.

    Raises:
        ConfigError: the Kubernetes API cannot be used as told.
    """
    from gpu_device_plugin.kube.access import load_access  # noqa: PLC0415 - not for files
    from gpu_device_plugin.kube.client import KubeClient  # noqa: PLC0415 - as above

    return KubeClient(
        load_access(parsed.text("kubeconfig")),
        qps=parsed.number("kube-api-qps"),
        burst=parsed.integer("kube-api-burst"),
        program=program,
    )


def _node_feature(parsed: Parsed, client: KubeClient | None) -> Output:
    from gpu_device_plugin.labels.node_feature import NodeFeatureOutput  # noqa: PLC0415 - not for files

    return NodeFeatureOutput(
        client or open_client(parsed, Program.GPU_FEATURE_DISCOVERY),
        node=parsed.text("node-name"),
        namespace=parsed.text("namespace"),
        pod=parsed.text("pod-name"),
    )

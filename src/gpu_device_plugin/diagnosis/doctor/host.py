"""The machine as the checks see it: files, processes, sockets, NVML and the plugin's options.

A check asks nothing but its `Host`, so that it can be tested on made-up trees. What is not a
file is asked through `Edges`, each member of which can be replaced.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from gpu_device_plugin.cdi.paths import clean
from gpu_device_plugin.cdi.root import Root
from gpu_device_plugin.cdi.system import System
from gpu_device_plugin.config.grammar import Parsed
from gpu_device_plugin.config.load import Loaded
from gpu_device_plugin.config.model import Config
from gpu_device_plugin.diagnosis.doctor import edges
from gpu_device_plugin.diagnosis.doctor.edges import Json
from gpu_device_plugin.diagnosis.doctor.nvml_probe import probe_nvml, simulated_facts
from gpu_device_plugin.errors import ConfigError, UserError
from gpu_device_plugin.hardware.backend import Backend
from gpu_device_plugin.hardware.nvml.facts import NvmlFacts
from gpu_device_plugin.resources.model import Plan
from gpu_device_plugin.resources.plan import plan_node

LARGEST = 1024 * 1024
"""Bytes of a file that are looked at."""
POD_MARKS = ("/.dockerenv", "/run/.containerenv")
"""Files that container engines put into containers."""


@dataclass(frozen=True, slots=True)
class Edges:
    """What is asked of the system beside files."""

    nvml: Callable[[str, str], NvmlFacts] = probe_nvml
    """Driver root and the directory to make the root before; see `probe_nvml`."""
    connect: Callable[[str], str] = edges.connect
    ask_plugin: Callable[[str], str] = edges.ask_plugin
    get_url: Callable[[str, str], tuple[int, str]] = edges.get_url
    open_inotify: Callable[[], str] = edges.open_inotify
    ask_mps: Callable[[str, str, str], tuple[bool, str]] = edges.ask_mps
    get_node: Callable[[str, Mapping[str, str], str], Json] = edges.get_node
    is_clock_synchronised: Callable[[], bool | None] = edges.is_clock_synchronised
    now: Callable[[], float] = edges.now
    space: Callable[[str], edges.Space] = edges.space
    open_files: Callable[[], tuple[int, int]] = edges.open_files
    can_write: Callable[[str], bool] = edges.can_write
    find_program: Callable[[str], str | None] = edges.find_program
    uid: Callable[[], int] = os.geteuid
    hostname: Callable[[], str] = socket.gethostname


@dataclass(frozen=True)
class Host:
    """What the checks may look at."""

    parsed: Parsed
    """The options of nvidia-device-plugin, which decide what is looked at."""
    load_config: Callable[[], Loaded]
    """Raises ConfigError if the configuration cannot be used."""
    open_backend: Callable[[Config], Backend]
    host_root: str = "/"
    """Where the host's root is, as this process sees it."""
    kubeconfig: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    system: System = field(default_factory=System)
    edges: Edges = field(default_factory=Edges)

    @cached_property
    def files(self) -> Root:
        """The host's files, as far as they are seen from here."""
        return Root(self.host_root, self.system)

    @cached_property
    def own(self) -> Root:
        """The files of this process's own mount namespace."""
        return self.files if self.host_root == "/" else Root("/", self.system)

    @property
    def simulated(self) -> str:
        """The profile of the simulated node; empty for real hardware."""
        return self.parsed.text("simulate")

    @property
    def has_host_files(self) -> bool:
        """Whether `files` are those of the host, not of a container."""
        return self.host_root != "/" or not self.is_container

    @cached_property
    def is_container(self) -> bool:
        """Whether this process runs in a container."""
        if "KUBERNETES_SERVICE_HOST" in self.environ or self.environ.get("container"):
            return True
        return any(self.own.lstat(mark) is not None for mark in POD_MARKS)

    def real(self, inner: str) -> str:
        """A path of `files` as the system's calls take it, with all links followed."""
        path = clean(inner)
        found = self.files.real(path)
        return self.system.prefix + self.files.outer(path if found is None else found.path)

    def text(self, inner: str, limit: int = LARGEST) -> str | None:
        """The text of a file; None if it cannot be read."""
        try:
            return self.files.read(clean(inner), limit).decode("utf-8", "replace")
        except OSError:
            return None

    def exists(self, inner: str) -> bool:
        """Whether a path leads to something."""
        return self.files.stat(clean(inner)) is not None

    @cached_property
    def driver_root(self) -> str:
        """The root of the driver installation, as a path of `files`.

        In the plugin's container it is where the host's is mounted, if it is there.
        """
        inside = self.parsed.text("driver-root-ctr-path")
        if self.host_root == "/" and self.exists(inside):
            return clean(inside)
        outside = clean(self.parsed.text("driver-root"))
        return outside if self.exists(outside) else "/"

    @cached_property
    def nvml(self) -> NvmlFacts:
        """What NVML tells, asked in a process of its own, as it may hang or crash."""
        if self.simulated:
            return simulated_facts(lambda: self.open_backend(self.config))
        root = self.driver_root
        if self.host_root == "/":
            return self.edges.nvml(self.system.prefix + root, "")
        return self.edges.nvml(root, self.host_root)

    @cached_property
    def _loaded(self) -> Loaded | ConfigError:
        try:
            return self.load_config()
        except ConfigError as error:
            return error

    @property
    def loaded(self) -> Loaded:
        """The plugin's configuration.

        Raises:
            ConfigError: it cannot be used.
        """
        if isinstance(self._loaded, ConfigError):
            raise self._loaded
        return self._loaded

    @property
    def config(self) -> Config:
        """The merged configuration; raises as `loaded` does."""
        return self.loaded.config

    def usable_config(self) -> Config | None:
        """The merged configuration; None if it cannot be used, which one check tells."""
        return None if isinstance(self._loaded, ConfigError) else self._loaded.config

    @cached_property
    def _plan(self) -> Plan | UserError:
        try:
            config = self.config
            inventory = self.open_backend(config).read()
            return plan_node(config, inventory)
        except UserError as error:
            return error

    @property
    def plan(self) -> Plan:
        """What the plugin would offer here.

        Raises:
            UserError: nothing can be offered, or that cannot be told.
        """
        if isinstance(self._plan, UserError):
            raise self._plan
        return self._plan

    @property
    def node_name(self) -> str:
        """The node's name: as given, or the machine's."""
        return self.parsed.text("node-name") or self.edges.hostname().lower()

    @cached_property
    def _node(self) -> Json | UserError:
        try:
            return self.edges.get_node(self.kubeconfig, self.environ, self.node_name)
        except UserError as error:
            return error

    @property
    def node(self) -> Json:
        """The node's object of the Kubernetes API, which is asked once.

        Raises:
            UserError: it does not answer, or refuses.
        """
        if isinstance(self._node, UserError):
            raise self._node
        return self._node

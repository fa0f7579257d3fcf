"""The tables of the page: resources, log lines, configuration, labels and MPS daemons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpu_device_plugin.status.model import (
    Configuration,
    FormerHolding,
    Labelling,
    LogEvent,
    MpsStatus,
    NodeStatus,
    Pods,
    ResourceStatus,
    Setting,
)
from gpu_device_plugin.status.page.gpus import badge, fact
from gpu_device_plugin.status.page.html import (
    Markup,
    details,
    escaped,
    items,
    join,
    section,
    table,
    tag,
)
from gpu_device_plugin.status.page.state import Level
from gpu_device_plugin.status.page.usage import holder_name
from gpu_device_plugin.status.page.words import ago, clock, count

NEWEST, OLDER = 8, 12
"""Log lines that are shown, and those that are shown on demand."""
MOST_FORMER = 20
"""Holdings of what is not offered any more that are named."""
LEVELS = {"error": Level.BAD, "critical": Level.BAD, "warning": Level.WARN}


def resources_section(status: NodeStatus) -> Markup:
    """What the node offers to the kubelet."""
    heads = "Resource", "In use", "Allocatable", "Capacity", "Sharing", "Kubelet"
    rows = (_resource(resource) for resource in status.resources)
    return section(
        "resources",
        "Resources",
        table("resources", "Extended resources of this node", heads, rows),
        _pods(status.pods, status.time) if status.resources else Markup(""),
        _former(status.pods.former),
    )


def _resource(resource: ResourceStatus) -> tuple[Markup, ...]:
    well = resource.registered and resource.streams > 0
    state = resource.state or "nobody tells"
    if resource.registered:
        state = f"{state}, {count(resource.streams, 'stream')}"
    sharing = resource.sharing
    if resource.single:
        sharing += ", one a container"
    return (
        escaped(resource.name),
        escaped("not known" if resource.in_use is None else str(resource.in_use)),
        escaped(str(resource.allocatable)),
        escaped(str(resource.capacity)),
        escaped(sharing),
        badge(Level.GOOD if well else Level.WARN, state),
    )


def _pods(pods: Pods, now: float) -> Markup:
    if not pods.asked:
        text = "The kubelet is not asked who holds what (--pod-resources-socket)."
    elif pods.problem:
        text = f"The kubelet does not tell who holds what: {pods.problem}."
        if pods.time:
            text += f" What is shown it has told {ago(pods.time, now)}."
    elif not pods.time:
        text = "The kubelet has not yet told who holds what."
    else:
        text = f"The kubelet told who holds what {ago(pods.time, now)}."
    return tag("p", escaped(text), class_="aside")


def _former(holdings: Sequence[FormerHolding]) -> Markup:
    """What containers still hold of what is not offered any more."""
    shown = holdings[:MOST_FORMER]
    rows = (
        (
            escaped(each.resource),
            escaped(each.index or each.device),
            Markup(f"{holder_name(each.holder)} · {escaped(each.holder.container)}"),
        )
        for each in shown
    )
    caption = "Held by containers and not offered any more"
    if not holdings:
        return Markup("")
    more = len(holdings) - len(shown)
    return join(
        (
            tag("h3", escaped(caption)),
            table("former", caption, ("Resource", "Device", "Container"), rows),
            tag("p", escaped(f"and {more} more")) if more else Markup(""),
        )
    )


def events_section(events: Sequence[LogEvent], now: float) -> Markup:
    """The newest log lines."""
    recent, older = events[:NEWEST], events[NEWEST : NEWEST + OLDER]
    note = tag("p", escaped("Newest log lines first, times in UTC"))
    return section(
        "events",
        "Events",
        _lines("Newest log lines", recent, now),
        details("older", escaped("Older lines"), _lines("Older log lines", older, now))
        if older
        else Markup(""),
        note=note,
    )


def _lines(caption: str, events: Sequence[LogEvent], now: float) -> Markup:
    heads = "Time", "Level", "Message", "Source"
    return table(
        "log",
        caption,
        heads,
        (
            (
                escaped(clock(event.time, now)),
                _level(event.level),
                escaped(event.text),
                escaped(event.source),
            )
            for event in events
        ),
    )


def _level(word: str) -> Markup:
    """The level of a log line; what is usual does not stand out."""
    return badge(LEVELS[word], word) if word in LEVELS else escaped(word)


def configuration_section(configuration: Configuration | None, now: float) -> Markup:
    """What the program was told, and by what; defaults are shown on demand."""
    if configuration is None:
        return Markup("")
    changed = [setting for setting in configuration.settings if setting.origin]
    defaults = [setting for setting in configuration.settings if not setting.origin]
    return section(
        "configuration",
        "Configuration",
        tag("dl", join(_origin(configuration, now)), class_="facts"),
        items((_warning(text) for text in configuration.warnings), "points"),
        table(
            "settings",
            "Values that differ from the defaults, with what has set them",
            ("Key", "Value", "Set by"),
            ((*_setting(setting), escaped(setting.origin)) for setting in changed),
        )
        or tag("p", escaped("Nothing is set, all values are defaults.")),
        details(
            "defaults",
            escaped(count(len(defaults), "default")),
            table("settings", "Defaults", ("Key", "Value"), map(_setting, defaults)),
        )
        if defaults
        else Markup(""),
    )


def _origin(configuration: Configuration, now: float) -> Iterator[Markup]:
    yield fact("File", configuration.file or "none")
    if configuration.profile:
        yield fact("Profile", configuration.profile)
    if configuration.hash:
        yield fact("Hash", configuration.hash)
    reload = configuration.reload
    if reload is not None:
        when = f"{clock(reload.time, now)} UTC, {ago(reload.time, now)}"
        yield fact("Last reload", f"{when}, refused: {reload.error}" if reload.error else when)


def _warning(text: str) -> Markup:
    return point(Level.WARN, escaped(text))


def point(level: Level, text: Markup) -> Markup:
    """Something that is wrong, with a sign of how bad that is."""
    sign = f'<span class="sign {level.style}" aria-hidden="true">{level.symbol}</span>'
    return tag("p", Markup(f"{sign} {text}"))


def _setting(setting: Setting) -> tuple[Markup, Markup]:
    return escaped(setting.path), escaped(setting.value)


def labels_section(labelling: Labelling | None, now: float) -> Markup:
    """The labels of the node, where the program makes them."""
    if labelling is None:
        return Markup("")
    when = f"{count(len(labelling.labels), 'label')} in {labelling.place}"
    if labelling.time:
        when += f", {ago(labelling.time, now)}"
    rows = ((escaped(name), escaped(value)) for name, value in labelling.labels)
    names = table("settings", "Labels of the node", ("Label", "Value"), rows)
    return section(
        "labels",
        "Labels",
        tag("p", escaped(when)),
        details("all-labels", escaped("All labels"), names) if names else Markup(""),
    )


def mps_section(daemons: Sequence[MpsStatus]) -> Markup:
    """The MPS daemons."""
    rows = (
        (
            escaped(daemon.resource),
            badge(*((Level.GOOD, "ready") if daemon.ready else (Level.WARN, "not ready"))),
            escaped(daemon.detail),
        )
        for daemon in daemons
    )
    heads = "Resource", "State", "Detail"
    return section("mps", "MPS daemons", table("mps", "MPS daemons of this node", heads, rows))

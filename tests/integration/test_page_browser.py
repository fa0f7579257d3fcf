"""The status page in a real browser, served with its policy: looks, updates, keyboard, readers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.accessibility import accessibility_problems, accessible_nodes
from support.browser import PHONE, Browser, needs_browser
from support.page_server import PageServer, serving
from support.page_status import NOW, a_status, half_of_800, lost, many_pods, two_jobs, xid

from gpu_device_plugin.status.model import Check, LogEvent

pytestmark = needs_browser

TAB, ENTER = "\ue004", "\ue007"
UPDATE_NOW = "window.dispatchEvent(new Event('online'))"
VERDICT = "document.querySelector('h1').innerText"
ALARM = "document.getElementById('alarm')"
OPEN_ALL = "document.querySelectorAll('details').forEach((each) => { each.open = true; })"
FAULTS = {3: lost(), 5: xid(48, count=3)}

NODES = {
    "healthy": lambda: a_status(holders=two_jobs),
    "faults": lambda: replace(
        a_status("dgx-1", holders=two_jobs, ills=FAULTS),
        ready=Check(ok=False, reasons=("nvidia.com/gpu: the kubelet has no stream open",)),
    ),
    "sixteen": lambda: a_status("dgx-2", holders=two_jobs),
    "equal": lambda: a_status("rtx8000x2", replicas=1000, holders=many_pods(3, 1000)),
    "mig": lambda: a_status("dgx-a100-mig", holders=two_jobs, ills={5: xid(94)}),
    "replicas": half_of_800,
    "one": lambda: a_status("l40s"),
    "none": lambda: a_status("no-gpu"),
}


@pytest.fixture
def server():
    with serving(a_status(holders=two_jobs)) as running:
        yield running


def is_quiet(window: Browser, server: PageServer) -> None:
    """The console is empty, and nobody else has been asked for anything."""
    assert window.problems() == []
    asked = [url for url in window.requests() if not url.startswith(("data:", "about:"))]
    assert asked
    assert {url for url in asked if not url.startswith(server.url)} == set()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NODES)
def test_the_page_is_accessible_wide_and_narrow(window, server, name, scheme):
    server.status = NODES[name]()
    window.media(prefers_color_scheme=scheme)
    for width, height in ((1280, 900), PHONE, (320, 640)):
        window.size(width, height)
        window.open(server.url)
        window.js(OPEN_ALL)
        assert accessibility_problems(window) == []
        assert window.js("return document.documentElement.scrollWidth") <= width
    is_quiet(window, server)


def test_light_and_dark_differ_and_paper_is_always_white(window, server):
    ground = "getComputedStyle(document.body).backgroundColor"
    window.open(server.url)
    window.media(prefers_color_scheme="light")
    bright = window.js(f"return {ground}")
    window.media(prefers_color_scheme="dark")
    assert window.js(f"return {ground}") != bright
    window.media(media="print", prefers_color_scheme="dark")
    assert window.js(f"return {ground}") == "rgb(255, 255, 255)"
    assert not window.js("return document.getElementById('pause').checkVisibility()")


def test_the_page_updates_by_itself(window, server):
    window.open(server.url)
    assert window.js(f"return {VERDICT}") == "All 8 GPUs healthy"
    green = window.js("return document.getElementById('icon').href")
    server.status = a_status(holders=two_jobs, ills={3: lost()})
    window.until(f"{VERDICT} === 'GPU 3 is lost: it has fallen off the bus'")
    assert window.js("return document.title").startswith("✕ GPU 3 is lost")
    assert window.js("return document.getElementById('icon').href") != green
    assert window.js("return document.getElementById('verdict').className") == "bad"
    is_quiet(window, server)


def test_an_update_leaves_alone_what_somebody_is_looking_at(window, server):
    server.status = half_of_800()
    window.size(*PHONE)
    window.open(server.url)
    window.js(
        "document.getElementById('gpu-5-more').open = true;"
        "document.querySelector('#gpu-5-more summary').focus();"
        "scrollTo(0, 700); window.kept = document.getElementById('gpu-5')"
    )
    before = window.js("return scrollY")
    changed = a_status(replicas=100, holders=many_pods(40, 100, seed=8), ills={6: xid(48)})
    newest = LogEvent(NOW, "warning", "plugin.health", "unhealthy")
    server.status = replace(changed, events=(newest, *changed.events))
    window.js(UPDATE_NOW)
    window.until(f"{VERDICT}.startsWith('GPU 6 is unhealthy')")
    assert "40 containers on GPU 5" in window.text("#gpu-5-more")
    assert window.js("return document.activeElement.closest('li').id") == "gpu-5"
    assert window.js("return window.kept === document.getElementById('gpu-5')")
    assert not window.js("return document.getElementById('gpu-4-more').open")
    # The verdict above has grown; the browser keeps what is seen where it is, or the position.
    assert window.js("return scrollY") >= before - 1
    is_quiet(window, server)


def test_parts_that_come_and_go_are_taken_over(window, server):
    window.open(server.url)
    server.status = a_status("dgx-a100-mig")
    window.js(UPDATE_NOW)
    window.until("document.querySelectorAll('table.mig').length === 5")
    server.status = a_status("no-gpu")
    window.js(UPDATE_NOW)
    window.until(f"{VERDICT} === 'This node has no GPUs'")
    assert window.js("return document.getElementById('topology')") is None
    server.status = a_status(holders=two_jobs)
    window.js(UPDATE_NOW)
    window.until(f"{VERDICT} === 'All 8 GPUs healthy'")
    fresh = window.js("return document.getElementById('status').innerHTML")
    window.open(server.url)
    assert window.js("return document.getElementById('status').innerHTML") == fresh
    is_quiet(window, server)


@pytest.mark.parametrize(
    ("code", "instead", "reason"),
    [
        (500, b"", "the answer is 500"),
        (401, b"", "access is refused, reload the page"),
        (200, b"<!doctype html><title>Log in</title>", "the answer is another page"),
    ],
)
def test_a_state_that_is_not_renewed_says_so(window, server, code, instead, reason):
    window.open(server.url)
    server.code, server.instead = code, instead
    window.js(UPDATE_NOW)
    window.until(f"!{ALARM}.hidden")
    assert window.text("#alarm") == f"Not up to date, state of 02:16:26 UTC: {reason}."
    assert window.js("return document.title").startswith("? ✓ All 8 GPUs")
    assert window.js("return document.body.className") == "stale"
    assert accessibility_problems(window) == []
    server.code, server.instead = 200, b""
    window.js(UPDATE_NOW)
    window.until(f"{ALARM}.hidden")
    assert window.js("return document.title").startswith("✓ All 8 GPUs")
    assert window.js("return document.body.className") == ""


def test_a_program_that_is_gone_is_told(window):
    with serving(a_status()) as server:
        window.open(server.url)
    window.js(UPDATE_NOW)
    window.until(f"!{ALARM}.hidden")
    assert "the program cannot be reached" in window.text("#alarm")
    alert = [name for role, name in accessible_nodes(window) if role == "alert"]
    assert len(alert) == 1


def test_updates_can_be_paused(window, server):
    window.open(server.url)
    window.js("document.getElementById('pause').click()")
    assert window.text("#pause") == "Resume updates"
    server.status = a_status(ills={3: lost()})
    window.js(UPDATE_NOW)
    assert window.js(f"return {VERDICT}") == "All 8 GPUs healthy"
    window.js("document.getElementById('pause').click()")
    window.until(f"{VERDICT}.startsWith('GPU 3 is lost')")
    assert window.text("#pause") == "Pause updates"


def test_everything_can_be_reached_by_keyboard(window, server):
    window.open(server.url)
    window.js("window.reached = []")
    where = (
        "const it = document.activeElement, style = getComputedStyle(it);"
        "return [it.innerText.trim(), style.outlineStyle, it.getBoundingClientRect().top >= 0]"
    )
    stops = []
    while True:
        window.press(TAB)
        if window.js("return document.activeElement === document.body"):
            break
        stops.append(window.js(where))
        assert len(stops) < 40
    texts = [text.replace("\n", " ") for text, _, _ in stops]
    assert texts[:3] == ["Skip to the status", "Pause updates", "Details of GPU 0"]
    assert texts[-4:] == ["Details of GPU 7", "Links as a table", "19 defaults", "JSON"]
    assert {outline for _, outline, _ in stops} == {"solid"}
    assert all(seen for _, _, seen in stops)


def test_details_open_by_keyboard_and_the_skip_link_leads_to_the_status(window, server):
    window.open(server.url)
    window.press(TAB)
    window.press(ENTER)
    assert window.js("return document.activeElement.id") == "status"
    window.press(TAB)
    window.press(ENTER)
    assert window.js("return document.getElementById('gpu-0-more').open")


def test_a_reader_hears_the_page_in_order(window, server):
    server.status = NODES["faults"]()
    window.open(server.url)
    nodes = accessible_nodes(window)
    headings = [name for role, name in nodes if role == "heading"]
    gpus = [f"GPU {n}" for n in range(8)]
    expected = ["2 of 8 GPUs are not healthy", "GPUs", *gpus, "Resources", "Topology", "Events"]
    assert headings == [*expected, "Configuration"]
    assert ("image", "Links between the GPUs") in nodes
    assert ("status", "") in nodes or any(role == "status" for role, _ in nodes)
    tables = [name for role, name in nodes if role == "table"]
    assert tables[0] == "Extended resources of this node"


def test_tables_stay_tables_for_readers_on_a_phone(window, server):
    server.status = NODES["mig"]()
    window.size(*PHONE)
    window.open(server.url)
    nodes = accessible_nodes(window)
    assert ("table", "MIG devices of GPU 0") in nodes
    assert ("columnheader", "Profile") in nodes
    assert ("rowheader", "0:0") in nodes


def test_without_scripts_the_page_is_complete_and_offers_to_reload(window, server):
    server.status = NODES["faults"]()
    window.scripts(enabled=False)
    window.open(server.url)
    shown = window.cdp("DOMSnapshot.captureSnapshot", computedStyles=[])["strings"]
    assert "2 of 8 GPUs are not healthy" in shown
    assert "Reload" in shown
    visible = [name for role, name in accessible_nodes(window) if role in {"button", "link"}]
    assert visible == ["Skip to the status", "Reload", "JSON"]
    is_quiet(window, server)


def test_names_from_outside_do_nothing(window, server):
    bad = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
    server.status = replace(
        a_status(), node=bad, events=(LogEvent(NOW, "info", bad, f"</td></table>{bad}"),)
    )
    window.open(server.url)
    assert bad in window.text("#node")
    server.status = replace(server.status, time=NOW + 60)
    window.js(UPDATE_NOW)
    window.until("document.getElementById('taken').innerText === '02:17:26'")
    assert window.js("return document.querySelectorAll('img, main script').length") == 0
    assert bad in window.js("return document.title")
    is_quiet(window, server)

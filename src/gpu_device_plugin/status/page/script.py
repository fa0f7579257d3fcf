"""What a browser with JavaScript does: fetches the page again and takes over what has changed.

Elements are changed where they stand, so focus, scroll position, selected text and opened details
stay as they are. Without JavaScript the page is complete and is reloaded by a link.
"""

from __future__ import annotations

SECONDS = 5
"""Between two updates of a page that is looked at."""

SECONDS_HIDDEN = 30
"""Between two updates of a page in the background, whose title still tells the verdict."""

PATIENCE = 10
"""Seconds after which an answer does not come any more."""

SCRIPT = f"""\
"use strict";
(() => {{
const byId = (id) => document.getElementById(id);
const pause = byId("pause"), alarm = byId("alarm");
let timer, paused = false, fetching = false, title = document.title;

// Takes over attributes and children; elements with an id are found again wherever they stand.
function morph(now, next) {{
  for (const {{name}} of [...now.attributes])
    if (!next.hasAttribute(name) && !(name === "open" && now.tagName === "DETAILS"))
      now.removeAttribute(name);
  for (const {{name, value}} of next.attributes)
    if (now.getAttribute(name) !== value) now.setAttribute(name, value);
  let here = now.firstChild;
  for (const child of [...next.childNodes]) {{
    let match = here;
    if (child.id && !(here && here.id === child.id))
      match = [...now.children].find((each) => each.id === child.id) || null;
    else if (!child.id && here && here.id) match = null;
    if (!match || match.nodeName !== child.nodeName) {{
      now.insertBefore(document.importNode(child, true), here);
      continue;
    }}
    if (match !== here) now.insertBefore(match, here);
    else here = here.nextSibling;
    if (child.nodeType !== Node.ELEMENT_NODE) {{
      if (match.data !== child.data) match.data = child.data;
    }} else if (!match.isEqualNode(child)) morph(match, child);
  }}
  while (here) {{
    const rest = here;
    here = here.nextSibling;
    rest.remove();
  }}
}}

function warn(text) {{
  document.body.classList.toggle("stale", Boolean(text));
  document.title = text ? "? " + title : title;
  if (alarm.textContent !== text) alarm.textContent = text;
  alarm.hidden = !text;
}}

async function update() {{
  if (fetching) return;
  fetching = true;
  clearTimeout(timer);
  try {{
    // Without the name and password that the address may hold: fetch refuses those.
    const address = new URL(location.pathname + location.search, location.origin);
    const signal = AbortSignal.timeout?.({PATIENCE * 1000});
    // So that the server does not have the browser ask for a password in between.
    const headers = {{"X-Requested-With": "page"}};
    const answer = await fetch(address, {{cache: "no-store", headers, signal}});
    if (answer.status === 401 || answer.status === 403)
      throw new Error("access is refused, reload the page");
    if (!answer.ok) throw new Error("the answer is " + answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const main = next.querySelector("main#status");
    if (!main) throw new Error("the answer is another page");
    title = next.title;
    morph(byId("status"), main);
    morph(byId("node"), next.getElementById("node"));
    const icon = next.getElementById("icon").href;
    if (byId("icon").href !== icon) byId("icon").href = icon;
    warn("");
  }} catch (error) {{
    const known = error.name === "Error" ? error.message : "the program cannot be reached";
    warn("Not up to date, state of " + byId("taken").textContent + " UTC: " + known + ".");
  }}
  fetching = false;
  later();
}}

function later() {{
  clearTimeout(timer);
  if (!paused)
    timer = setTimeout(update, document.hidden ? {SECONDS_HIDDEN * 1000} : {SECONDS * 1000});
}}

pause.hidden = false;
pause.addEventListener("click", () => {{
  paused = !paused;
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  if (paused) clearTimeout(timer); else update();
}});
document.addEventListener("visibilitychange", () => {{
  if (!document.hidden && !paused) update();
}});
addEventListener("online", () => {{ if (!paused) update(); }});
later();
}})();
"""

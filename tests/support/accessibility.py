"""What makes a page hard to read or to use, as far as a program can find it."""

from __future__ import annotations

from typing import Any

from support.browser import Browser

CONTRASTS = """
const problems = [];
const channels = (text) => text.match(/[\\d.]+/g).map(Number);
const blend = (over, under) => {
  const alpha = over[3] === undefined ? 1 : over[3];
  return [0, 1, 2].map((i) => over[i] * alpha + under[i] * (1 - alpha));
};
const light = (colour) => {
  const [r, g, b] = colour.map((v) => {
    v /= 255;
    return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = (element) => {
  const shape = element.closest(".gpu") && element.closest("text");
  if (shape) {
    const own = shape.previousElementSibling;
    const circle = own && own.matches("circle.sign") ? own : element.closest(".gpu").querySelector("circle");
    return channels(getComputedStyle(circle).fill);
  }
  if (element.closest("text") && element.closest("svg").querySelector(".hub") && !element.matches(".numa"))
    return channels(getComputedStyle(element.closest("svg").querySelector(".hub")).fill);
  const above = [];
  for (let each = element; each; each = each.parentElement) {
    const colour = channels(getComputedStyle(each).backgroundColor);
    if (colour[3] === 0) continue;
    above.push(colour);
    if (colour[3] === undefined || colour[3] === 1) break;
  }
  return above.reduceRight((under, over) => blend(over, under), [255, 255, 255]);
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
  if (!text || element.closest("script,style,title,desc,noscript,[hidden]")) continue;
  if (!element.checkVisibility() || element.closest(".vh,caption,.skip")) continue;
  const style = getComputedStyle(element);
  const under = ground(element);
  const ink = blend(channels(element.closest("svg") ? style.fill : style.color), under);
  const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
  const contrast = (a + 0.05) / (b + 0.05);
  const size = parseFloat(style.fontSize), bold = Number(style.fontWeight) >= 700;
  const least = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
  if (contrast < least) problems.push(`contrast ${contrast.toFixed(2)}: ${text.slice(0, 40)}`);
}
return [...new Set(problems)];
"""

SMALL_TARGETS = """
return [...document.querySelectorAll("button,summary,a[href]")]
  .filter((each) => each.checkVisibility() && !each.matches(".skip") && !each.closest("footer"))
  .map((each) => [each.innerText, each.getBoundingClientRect()])
  .filter(([, box]) => box.width < 24 || box.height < 24)
  .map(([text, box]) => `small: ${text} ${box.width.toFixed()} x ${box.height.toFixed()}`);
"""

OUTSIDE = """
const wide = document.documentElement.clientWidth;
return [...document.body.querySelectorAll("*")]
  .filter((each) => each.checkVisibility() && !each.closest(".vh,caption,.scroll,thead,.skip"))
  .filter((each) => each.getBoundingClientRect().right > wide + 1)
  .map((each) => `beyond the edge: ${each.tagName} ${each.className} ${each.textContent.slice(0, 30)}`);
"""

NEED_NAMES = {
    "button",
    "link",
    "image",
    "table",
    "region",
    "heading",
    "DisclosureTriangle",
    "DisclosureTriangleGrouped",
}
LANDMARKS = {"banner", "main", "contentinfo"}


def accessibility_problems(window: Browser) -> list[str]:
    """Everything that is found on the page that is shown."""
    problems = list[str](window.js(CONTRASTS))
    problems += window.js(SMALL_TARGETS)
    problems += window.js(OUTSIDE)
    nodes = accessible_nodes(window)
    problems += [
        f"{role} without a name" for role, name in nodes if role in NEED_NAMES and not name.strip()
    ]
    for landmark in LANDMARKS:
        if sum(role == landmark for role, _ in nodes) != 1:
            problems.append(f"not one {landmark}")
    return problems


def accessible_nodes(window: Browser) -> list[tuple[str, str]]:
    """Role and name of everything that is told to a screen reader, in its order."""
    nodes = window.cdp("Accessibility.getFullAXTree")["nodes"]
    by_id = {node["nodeId"]: node for node in nodes}
    found, rest = list[tuple[str, str]](), [nodes[0]]
    while rest:
        node = rest.pop()
        if not node["ignored"]:
            found.append((_value(node, "role"), _value(node, "name")))
        below = (by_id.get(each) for each in reversed(node.get("childIds", ())))
        rest += [each for each in below if each is not None]
    return found


def _value(node: dict[str, Any], key: str) -> str:
    return str(node.get(key, {}).get("value", ""))

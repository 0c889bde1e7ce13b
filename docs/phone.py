"""``make docs``: every built page as a phone shows it, dark and light in turn.

Nothing may be cut off at its side, tables need no scrolling, every picture must be there, and no
page may ask another host for anything: whoever reads them needs no network.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

from playwright.sync_api import Page, Request, ViewportSize

DOCS = Path(__file__).parent
BUILT = DOCS / "_build"
sys.path.insert(0, str(DOCS.parent))
SIZE: ViewportSize = {"width": 390, "height": 844}
SCROLLS = "(one) => /auto|scroll/.test(getComputedStyle(one).overflowX)"
PATIENCE_MS = 120_000  # for a page on a busy machine
CUT = f"""() => {{
    const scrolls = {SCROLLS};
    const held = (one) => one.tagName !== "ARTICLE" && (scrolls(one) || held(one.parentElement));
    return [...document.querySelectorAll("article *")].filter((one) =>
        one.getBoundingClientRect().right > {SIZE["width"]} + 1 && !held(one.parentElement)
    ).map((one) => one.textContent.trim().slice(0, 60) || one.tagName);
}}"""
WIDE = """[...document.querySelectorAll(".table-wrapper")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1
).map((one) => one.textContent.trim().slice(0, 60))"""
UNSEEN = "[...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)"


def main() -> int:
    """One line for each fault; 1 when there is one."""
    from tests.live.real_browser import CHROMIUM, chromium

    if not Path(CHROMIUM).exists():
        print("without chromium the pages are NOT looked at as a phone shows them")
        return 0
    faults: list[str] = []
    with chromium() as browser:
        light = browser.new_page(viewport=SIZE, color_scheme="light", is_mobile=True)
        dark = browser.new_page(viewport=SIZE, color_scheme="dark", is_mobile=True)
        for one in (light, dark):
            one.set_default_timeout(PATIENCE_MS)
        for path, page in zip(sorted(BUILT.rglob("*.html")), cycle((light, dark)), strict=False):
            faults += [f"{path.relative_to(BUILT)}: {said}" for said in looked_at(page, path)]
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def looked_at(page: Page, path: Path) -> Iterator[str]:
    """What is wrong with a page."""
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.goto(path.as_uri())
    page.remove_listener("request", note)
    yield from (f"cut off at its side: {' '.join(one.split())}" for one in page.evaluate(CUT))
    yield from (f"a table that scrolls: {' '.join(one.split())}" for one in page.evaluate(WIDE))
    yield from (f"no picture at {one}" for one in page.evaluate(UNSEEN))
    elsewhere = {one for one in asked if not one.startswith(("file:", "data:"))}
    yield from (f"it asks for {one}" for one in sorted(elsewhere))


if __name__ == "__main__":
    sys.exit(main())

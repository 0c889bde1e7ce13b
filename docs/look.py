"""``make docs``: checks every built page on a desktop and on a phone, alternately dark and light.

Nothing may be cut off at the side, no table may need scrolling, every picture must exist, and no
page may load anything from another host, so that readers need no network. axe also checks pages of
each kind, in both schemes and at both sizes. The search must find a page.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, Page, Request, ViewportSize

DOCS = Path(__file__).parent
BUILT = DOCS / "_build"
sys.path.insert(0, str(DOCS.parent))
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 844}
PATIENCE_MS = 120_000  # for a page on a busy machine
SCROLLS = "(one) => /auto|scroll/.test(getComputedStyle(one).overflowX)"
CUT = f"""(width) => {{
    const scrolls = {SCROLLS};
    const held = (one) => one.tagName !== "ARTICLE" && (scrolls(one) || held(one.parentElement));
    return [...document.querySelectorAll("article *")].filter((one) =>
        one.getBoundingClientRect().right > width + 1 && !held(one.parentElement)
    ).map((one) => one.textContent.trim().slice(0, 60) || one.tagName);
}}"""
WIDE = """[...document.querySelectorAll(".table-wrapper")].filter(
    (one) => one.scrollWidth > one.clientWidth + 1
).map((one) => one.textContent.trim().slice(0, 60))"""
# a word in a cell that is too narrow for it: its letters stand on two lines
BROKEN = """(() => {
    const found = new Set(), range = document.createRange();
    for (const cell of document.querySelectorAll("article td")) {
        const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
        while (walk.nextNode()) {
          const text = walk.currentNode;
          for (const word of text.data.matchAll(/[A-Z]*[a-z]+|[A-Z]+/g)) {
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            if (range.getClientRects().length > 1) found.add(word[0]);
          }
        }
    }
    return [...found];
})()"""
# a picture that goes beyond its own column, or scrolls within a box
OVER = """[...document.querySelectorAll(".drawing img")].filter((one) => {
    const column = one.closest("section").getBoundingClientRect();
    return one.getBoundingClientRect().right > column.right + 1;
}).map((one) => one.alt)"""
UNSEEN = "[...document.images].filter((one) => !one.naturalWidth).map((one) => one.src)"
KINDS = (  # landing pages, pictures, code blocks, drawings, tables, charts, search results
    "index.html",
    "players/index.html",
    "owners/first-evening.html",
    "pictures.html",
    "owners/configuration.html",
    "reference/benchmarks.html",
    "search.html",
)
SEARCH_TERM, EXPECTED_PAGE = "passphrase", "owners/backup.html"


def main() -> int:
    """Print a line for each fault and return the exit status."""
    from tests.live.real_browser import CHROMIUM, chromium

    if CHROMIUM is None:
        print(
            "chromium is not installed, so the built pages are NOT checked on a desktop and a phone"
        )
        return 0
    with chromium() as browser:
        faults = list(all_looked_at(browser))
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def all_looked_at(browser: Browser) -> Iterator[str]:
    """Yield the faults of all pages and of the search."""
    desktops, phones = [
        [
            browser.new_page(viewport=size, color_scheme=scheme, is_mobile=size is PHONE)
            for scheme in ("light", "dark")
        ]
        for size in (DESKTOP, PHONE)
    ]
    for entry in (*desktops, *phones):
        entry.set_default_timeout(PATIENCE_MS)
    for turn, path in enumerate(sorted(BUILT.rglob("*.html"))):
        file = path.relative_to(BUILT)
        for page in (desktops[turn % 2], phones[1 - turn % 2]):
            yield from (f"{file} {seen_as(page)}: {reply}" for reply in looked_at(page, path))
    for name in KINDS:
        for page in (*desktops, *phones):
            page.goto((BUILT / name).as_uri())
            yield from (f"{name} {seen_as(page)}: {reply}" for reply in looked_over(page))
    yield from searched(desktops[0])


def seen_as(page: Page) -> str:
    """Return a page's size and colour scheme as text."""
    size = page.viewport_size
    dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    return f"({'?' if size is None else size['width']} px, {'dark' if dark else 'light'})"


def looked_at(page: Page, path: Path) -> Iterator[str]:
    """Yield the faults of a page."""
    requests: list[str] = []

    def note(request: Request) -> None:
        requests.append(request.url)

    page.on("request", note)
    page.goto(path.as_uri())
    page.remove_listener("request", note)
    width = page.viewport_size["width"] if page.viewport_size else 0
    yield from (
        f"cut off at the side: {' '.join(entry.split())}" for entry in page.evaluate(CUT, width)
    )
    yield from (
        f"table needs scrolling: {' '.join(entry.split())}" for entry in page.evaluate(WIDE)
    )
    yield from (f"word broken inside a table cell: {entry}" for entry in page.evaluate(BROKEN))
    yield from (f"drawing wider than the page: {entry}" for entry in page.evaluate(OVER))
    yield from (f"no picture at {entry}" for entry in page.evaluate(UNSEEN))
    elsewhere = {entry for entry in requests if not entry.startswith(("file:", "data:"))}
    yield from (f"loads from another host: {entry}" for entry in sorted(elsewhere))


def looked_over(page: Page) -> Iterator[str]:
    """Yield the accessibility faults that axe finds in a page."""
    from axe_playwright_python.sync_playwright import Axe

    for fault in Axe().run(page).response["violations"]:
        places = [" ".join(node["target"]) for node in fault["nodes"]]
        yield f"{fault['id']}, {fault['help']}: {'; '.join(places[:3])}"


def searched(page: Page) -> Iterator[str]:
    """Yield a fault if a search from the first page does not find the page it looks for."""
    page.goto((BUILT / "index.html").as_uri())
    box = page.get_by_role("textbox", name="Search")
    box.fill(SEARCH_TERM)
    box.press("Enter")
    page.wait_for_selector("#search-results .search-summary:has-text('found')")
    result = page.eval_on_selector_all("#search-results a", "(all) => all.map((one) => one.href)")
    if not any(EXPECTED_PAGE in item for item in result):
        yield f"the search for {SEARCH_TERM} does not find {EXPECTED_PAGE}, but {result}"


if __name__ == "__main__":
    sys.exit(main())

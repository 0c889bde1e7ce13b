"""A real browser for the live tests and for the pictures of our pages."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from attrs import define, field
from axe_playwright_python.base import AXE_SCRIPT, AxeResults
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests import tools
from tests.support.requirements import skip

CHROMIUM = tools.find("chromium")
# the folder of the tests' screenshots, if one is named
PICTURES = os.environ.get("SVC_PICTURES")
# Playwright's own Node needs libatomic, which a small machine lacks
if (tools.BIN / "node").exists():
    os.environ["PLAYWRIGHT_NODEJS_PATH"] = str(tools.BIN / "node")
# The machine may be busy, and the owner's page itself waits up to 35 s for some answers.
PATIENCE_MS = 40_000  # for one action on a page
expect.set_options(timeout=60_000)
REPLACE = """(pairs) => {
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) for (const [from, to] of pairs) {
        const node = walk.currentNode;
        if (node.data.includes(from)) node.data = node.data.replaceAll(from, to);
    }
}"""
# To measure the contrast of texts takes most of axe's time. Two elements of one kind have the same
# contrast if their colours, and those of all elements around them, are equal, so axe measures only
# the first of them. Passed checks are not returned, because they would pass through two processes.
LOOK_OVER = """async ([part, rules]) => {
    const looks = new Map(), numbers = new Map(), again = [];
    for (const one of document.querySelectorAll('*')) {
        const style = getComputedStyle(one);
        const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
        const look = [numbers.get(one.parentElement), one.localName, one.className, words,
            one.checkVisibility(), one.matches(':disabled'), one.ariaDisabled,
            style.color, style.backgroundColor, style.backgroundImage, style.opacity,
            style.fontSize, style.fontWeight, style.textShadow].join();
        numbers.set(one, looks.get(look) ?? looks.size);
        if (!looks.has(look)) looks.set(look, looks.size);
        else if (!one.closest('label, select, :disabled')) again.push(one);
    }
    for (const one of again) one.setAttribute('data-again', '');
    const runOnly = rules.length ? {runOnly: rules} : {};
    const {violations} = await axe.run(part ?? document,
        {resultTypes: ['violations'], preload: false, ...runOnly});
    for (const one of again) one.removeAttribute('data-again');
    return {violations};
}"""
CONTRAST_ONCE = "axe.configure({rules: [{id: 'color-contrast', selector: ':not([data-again])'}]})"
OF_COLOURS = ("color-contrast", "link-in-text-block")  # axe's rules about colours


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser; skip the test if it is not installed."""
    if CHROMIUM is None:
        raise skip("chromium", tools.MISSING)
    with sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@contextmanager
def beside(browser: Browser, *switches: str) -> Iterator[Browser]:
    """Start another browser of the same kind with these command-line ``switches``."""
    started = browser.browser_type.launch(
        executable_path=CHROMIUM, args=["--no-sandbox", *switches]
    )
    yield started
    started.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start the browser for the tests of one file."""
    with chromium() as started:
        yield started


def replace_text(page: Page, pairs: Sequence[tuple[str, str]]) -> None:
    """Replace text in a page, so that a picture is the same on every machine."""
    page.evaluate(REPLACE, list(pairs))


@define
class ObservedPage:
    """A page with its console messages and requests; ``look`` is part of its pictures' names."""

    page: Page
    look: str
    faults: list[str] = field(factory=list, init=False)
    failed: list[str] = field(factory=list, init=False)  # requests without a good answer
    requested: list[str] = field(factory=list, init=False)

    def press(self, name: str | re.Pattern[str]) -> None:
        exact = isinstance(name, str)
        self.page.get_by_role("button", name=name, exact=exact).first.click()

    def keep(self, name: str, rules: Sequence[str] = (), *, whole: bool = False) -> None:
        """Check accessibility, and save a screenshot (of the full page if ``whole`` is true)."""
        if PICTURES:
            self.page.screenshot(path=Path(PICTURES, name), full_page=whole)
        self.look_over(name, rules=rules)

    def look_over(self, name: str, part: str | None = None, rules: Sequence[str] = ()) -> None:
        """Let axe check the page, or a part of it, for accessibility faults.

        If ``rules`` is empty, axe checks all its rules.
        """
        if not self.page.evaluate("'axe' in window"):
            # only once, because loading axe takes longer than most checks
            self.page.evaluate(AXE_SCRIPT)
            self.page.evaluate(CONTRAST_ONCE)
        result = AxeResults(self.page.evaluate(LOOK_OVER, [part, rules]))
        assert result.violations_count == 0, f"{name}: {result.generate_report()}"

    def describe(self) -> str:
        """Return what the page shows and what failed on it, for the report of a failed test."""
        try:
            text = self.page.locator("body").inner_text(timeout=2_000)[:1500]
        except Error as error:  # such as a page that is closed
            text = str(error)
        last = {"console": self.faults[-5:], "requests": self.failed[-10:]}
        return f"{self.page.url} shows:\n{text}\n{last}"

    @contextmanager
    def watched(self, *own: str) -> Iterator[None]:
        """Watch the page during the ``with`` block, and then close it.

        Fail on console errors, and on requests to addresses that begin with none of ``own``.
        """
        page = self.page
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", lambda m: self.faults.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda why: self.faults.append(str(why)))
        page.on("request", lambda sent: self.requested.append(sent.url))
        page.on("requestfailed", lambda sent: self.failed.append(f"{sent.failure} {sent.url}"))
        page.on("response", lambda got: got.ok or self.failed.append(f"{got.status} {got.url}"))
        try:
            yield
        except BaseException as error:
            error.add_note(self.describe())
            raise
        finally:
            page.context.close()
        assert [fault for fault in self.faults if "Failed to load resource" not in fault] == []
        assert [url for url in self.requested if not url.startswith(own)] == []

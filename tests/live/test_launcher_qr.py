"""An invite as a picture: every size and level of QR code is read by the page, and by it alone.

Why processes: a browser.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import segno
from playwright.sync_api import Browser, Page, expect

from tests.launcher.around import invite_text
from tests.live.players_host import launcher, link_of
from tests.live.players_page import visit
from tests.live.real_browser import browser

__all__ = ["browser"]  # a fixture

pytestmark = pytest.mark.live

READ = """async (codes) => {
    const { read } = await import("/qr.js");
    return codes.map((rows) => {
        try { return read(rows.map((row) => [...row].map((one) => one === "1"))); }
        catch (why) { return why.constructor.name; }
    });
}"""


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    with launcher(tmp_path, "--print-link") as started:
        made = browser.new_context()
        opened = made.new_page()
        opened.goto(link_of(started))
        yield opened
        made.close()


def rows(code: segno.QRCode) -> list[str]:
    return ["".join(map(str, row)) for row in code.matrix]


def longest(version: int, error: str, text: str) -> segno.QRCode | None:
    """As much of ``text`` as fits.

    The mask is given: to find the best one, segno makes and rates all eight of them.
    """
    kind: dict[str, Any] = {"version": version, "error": error, "mask": version % 8}
    for length in range(len(text), 0, -7):
        try:
            return segno.make(text[:length], boost_error=False, micro=False, **kind)
        except segno.DataOverflowError:
            continue
    return None


# slow: over 150 codes are made and read, also the largest
def test_every_version_level_and_alphabet_is_read(page: Page) -> None:
    texts = ("31415926535" * 20, "SVC JOIN: 7/A" * 20, "svc://join?name=Größe&fp=π" * 9)
    made: list[tuple[str, list[str]]] = []
    for version in range(1, 41):
        for error in "lmqh":
            text = texts[(version + ord(error)) % 3]
            code = longest(version, error, text)
            if code is not None:
                made.append((text, rows(code)))
    made += [(invite_text(), rows(segno.make(invite_text(), mask=mask))) for mask in range(8)]
    read = page.evaluate(READ, [one for _, one in made])
    assert len(made) > 150
    for (text, _), found in zip(made, read, strict=True):
        assert found and text.startswith(found), (text, found)


def test_wrong_modules_are_put_right_or_refused_and_never_another_text(page: Page) -> None:
    code = rows(segno.make(invite_text(), error="m", boost_error=False))
    size, spoiled = len(code), []
    inner = [(x, y) for x in range(9, size - 9) for y in range(9, size - 9)]
    for flips in (10, 40, 400):
        changed = [list(row) for row in code]
        for x, y in random.Random(flips).sample(inner, flips):
            changed[y][x] = "0" if changed[y][x] == "1" else "1"
        spoiled.append(["".join(row) for row in changed])
    few, more, ruined = page.evaluate(READ, spoiled)
    assert few == invite_text()
    assert more in (invite_text(), "Unread")
    assert ruined == "Unread"
    assert page.evaluate(READ, [[], ["1"] * 21, ["1" * 21] * 21]) == ["Unread"] * 3


def png(code: segno.QRCode, **look: Any) -> bytes:
    made = io.BytesIO()
    code.save(made, kind="png", **look)
    return made.getvalue()


def test_a_player_opens_the_picture_of_an_invite(browser: Browser, tmp_path: Path) -> None:
    code = segno.make(invite_text(), error="m")
    with visit(browser, tmp_path) as seen:
        chooser = seen.page.get_by_label("Or a picture of its QR code")
        for name, content in (("a.txt", b"no picture"), ("b.png", png(segno.make("x"), scale=1))):
            file: Any = {"name": name, "mimeType": "image/png", "buffer": content}
            chooser.set_input_files(file)
            expect(seen.page.locator("main .alert")).to_be_visible()
        looks: tuple[dict[str, Any], ...] = (
            {"scale": 3},
            {"scale": 40, "border": 1},  # larger than what is looked at
            {"scale": 4, "dark": "#dddddd", "light": "#181c20"},  # as a dark page shows it
            {"scale": 5, "light": None},  # transparent
        )
        for look in looks:
            file = {"name": "invite.png", "mimeType": "image/png", "buffer": png(code, **look)}
            chooser.set_input_files(file)
            seen.reads("Friday Hunts")
            seen.press("Not my host")
            expect(chooser).to_be_visible()

"""The link of the launcher's page goes to the browser, and serves no other user of this PC.

Why processes: the browser is one of its own, and so is another user.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from tests.launcher.around import invite_text
from tests.live.players_host import LAUNCHER, environ_of
from tests.support.processes import eventually
from tests.support.requirements import skip

pytestmark = pytest.mark.live

NOBODY = 65534
LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/#([0-9a-f]+)")


@contextmanager
def opened_by_it(home: Path, opened: Path) -> Iterator[dict[str, str]]:
    """A launcher that opens a browser which only notes the link; gives its environment."""
    home.mkdir()
    browser = home / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> {opened}\n')
    browser.chmod(0o755)
    environ = {**environ_of(home), "BROWSER": str(browser)}
    command = [LAUNCHER, "--key-file", "--no-links"]
    with subprocess.Popen(command, env=environ, cwd=home, stdin=subprocess.DEVNULL) as running:
        try:
            yield environ
        finally:
            running.terminate()


def entered(port: str, token: str, **who: int) -> tuple[int, dict[str, str]]:
    """What the page says to whoever shows the link's token: status and JSON."""
    own = f"http://127.0.0.1:{port}"
    words = ["-s", "-m", "20", "-w", "%{http_code}", "-H", f"Origin: {own}"]
    body = ["-d", orjson.dumps({"token": token}).decode(), f"{own}/api/enter"]
    ran = subprocess.run(
        [shutil.which("curl") or "curl", *words, *body],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        cwd="/",
        user=who.get("user"),
    )
    return int(ran.stdout[-3:]), orjson.loads(ran.stdout[:-3])


def links(opened: Path, count: int) -> list[tuple[str, str]]:
    """Port and token of each link that the browser was given, once there are so many."""
    eventually(lambda: opened.exists() and len(opened.read_text().splitlines()) >= count)
    found = [LINK.fullmatch(line) for line in opened.read_text().splitlines()]
    assert all(found)
    return [(one[1], one[2]) for one in found if one is not None]


def test_the_browser_gets_the_link_which_serves_no_other_user(tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("curl") is None:
        raise skip("curl", "another user can be played by root with curl alone")
    opened = tmp_path / "opened"
    with opened_by_it(tmp_path / "home", opened) as environ:
        [(port, token)] = links(opened, 1)
        assert entered(port, token, user=NOBODY) == (403, {"error": "user"})
        status, said = entered(port, token)
        assert (status, list(said)) == (200, ["session"])
        command = [LAUNCHER, "--key-file", "--no-links", invite_text()]
        subprocess.run(command, env=environ, timeout=60, check=True)
        assert links(opened, 2)[1][0] == port

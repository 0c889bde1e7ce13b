"""The launcher for Windows: the contents of its zip file, and its start under Wine.

Real processes are needed because Windows programs run under Wine.
"""

from __future__ import annotations

import re
import urllib.request
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.wine import WindowsPC, windows_pc, windows_zip

pytestmark = pytest.mark.live

MB = 1_000_000


def test_the_zip_is_one_small_folder() -> None:
    file = windows_zip()
    with zipfile.ZipFile(file) as packed:
        entries = packed.infolist()
    assert {entry.filename.partition("/")[0] for entry in entries} == {"svc-launcher"}
    assert file.stat().st_size < 25 * MB
    assert sum(entry.file_size for entry in entries) < 60 * MB


def page_of(pc: WindowsPC) -> str:
    """Start a launcher, end it, and return the page that it served."""
    with pc.start(pc.command[1], "--print-link", "--no-links", "--key-file") as process:
        assert process.stdout is not None
        try:
            link = next(filter(None, (re.search(r"http://\S+/", line) for line in process.stdout)))
            with urllib.request.urlopen(link[0], timeout=60) as reply:  # noqa: S310 - our own
                page: str = reply.read().decode()
        finally:
            process.kill()
    return page


# slow: the zip is built, and a prefix of Wine is made
def test_it_says_its_version_and_serves_its_page_under_wine(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        output = pc.launcher("--version")
        page = page_of(pc)
        state = pc.local / "svc-launcher" / "state" / "launcher.log"
        assert output.strip() == f"svc-launcher {version('svcserver')}"
        assert "<title>" in page
        assert state.is_file()

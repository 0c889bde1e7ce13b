"""The whole tour of ``docs/owners/first-evening.md``, taken again on an empty machine."""

import tomllib
from pathlib import Path

import pytest

from tests import tools
from tests.live.real_browser import CHROMIUM
from tests.live.tour_times import PAGE, STEPS, slow
from tests.packages.empty_machine import install_blocks, tour
from tests.packages.support import ROOT
from tests.support.requirements import skip


# slow: a Debian, an installation from two archives, two starts of a host, a browser and a hunt
@pytest.mark.packages
def test_a_first_evening_takes_no_longer_than_the_page_says(tmp_path: Path, wheel: Path) -> None:
    if CHROMIUM is None:
        raise skip("packages", tools.MISSING)
    took = tour(tmp_path / "root", wheel, tmp_path / "pictures")
    assert tuple(took) == STEPS
    late = slow(took, PAGE.read_text("utf-8"))
    assert late == {}, f"longer than the page says: {late}; make pictures writes new times"


def test_the_tour_runs_the_pages_install_commands() -> None:
    root, user = install_blocks()
    assert (root.needs, user.needs) == ("root", "a release")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f" ./svcserver-{project['version']}-py3-none-any.whl\n" in user.text

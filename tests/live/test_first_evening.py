"""The tour of ``docs/owners/first-evening.md``, from ``svcctl up`` to a first hunt.

Real processes in a separate network namespace are needed because the tour uses the usual ports, as
an owner's host does. ``tests/packages/test_first_evening.py`` begins on a machine without
svcserver, and needs root.
"""

import json
from datetime import date
from pathlib import Path

import pytest

from tests.live.attacks.own_network import in_own_network
from tests.live.owners_pictures import taken
from tests.live.tour_times import INSTALL, PAGE, STEPS, machine, shown, slow, written
from tests.support.proves import proves

LONGEST_S = 600.0
PICTURES = ("1-overview", "2-invite", "3-first-hunt", "4-friend")


def tour(folder: Path) -> None:
    """Take the tour and save the times next to the pictures."""
    steps = taken(folder / "pictures").steps
    (folder / "took.json").write_text(json.dumps(steps))


# slow: 60 s: two starts of a whole host, a browser, a launcher, a download and a hunt
@pytest.mark.live
@proves("svcctl up")
def test_the_first_evening_goes_as_its_page_says(tmp_path: Path) -> None:
    in_own_network(tour, tmp_path, LONGEST_S)
    took = json.loads((tmp_path / "took.json").read_text())
    assert (INSTALL, *took) == STEPS
    for name in PICTURES:
        assert (tmp_path / "pictures" / f"{name}.png").stat().st_size > 10_000


def test_the_page_has_a_time_for_each_step_and_their_sum() -> None:
    page = PAGE.read_text("utf-8")
    reply = shown(page)
    assert set(reply) == {*STEPS, "in all"}
    assert sum(reply[entry] for entry in STEPS) == reply["in all"]
    again = written(page, {entry: 2.0 for entry in STEPS}, "Measured on a ship.")
    assert shown(again) == {**dict.fromkeys(STEPS, 2), "in all": 2 * len(STEPS)}
    assert "\nMeasured on a ship.\n" in again
    assert slow(dict.fromkeys(STEPS, 28.0), again) == {}
    assert slow({STEPS[1]: 28.1, STEPS[2]: 0.1}, again) == {STEPS[1]: 28.1}


def test_the_page_names_date_and_machine_of_the_measurement() -> None:
    reply = machine(date(2026, 11, 22), "tests/test_ship.py")
    assert reply.startswith("Measured on 22 November 2026 by `tests/test_ship.py` on ")
    assert "\n" not in reply
    assert "\nMeasured on " in PAGE.read_text("utf-8")

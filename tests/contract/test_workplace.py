from __future__ import annotations

import os
import re
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from tests import scratch
from tests.support.packaging import recipe
from tests.support.watch import NAP_S, Watch
from tests.workplace import HEADLESS, PROGRAMS, RELEASING, SUITE, Machine, findings

ROOT = Path(__file__).parents[2]
WELL = Machine(
    find=lambda name: f"/usr/bin/{name}",
    run=lambda command: True,
    free=lambda folder: 1 << 40,
    memory=lambda: 1 << 40,
    files=lambda: 1 << 20,
    binds=lambda address: True,
    suite=lambda: SUITE,
    version=(3, 11),
)


class FindingTests(SynchronousTestCase):
    def faults(self, **changed: Any) -> list[str]:
        return [str(one) for one in findings(evolve(WELL, **changed)) if one.fault]

    def test_a_machine_that_has_everything(self) -> None:
        self.assertEqual(self.faults(), [])

    def test_each_missing_program_has_its_cure(self) -> None:
        faults = self.faults(find=lambda name: None if name == "nft" else name)
        fault = "the tests of the real firewall are skipped; apt-get install nftables"
        self.assertEqual(faults, [f"  missing  nft: {fault}"])
        self.assertEqual(len(self.faults(find=lambda name: None)), len(PROGRAMS) + 2)

    def test_what_only_packages_need_is_told_apart(self) -> None:
        [line] = self.faults(find=lambda name: None if name in ("buildah", "dh") else name)
        self.assertTrue(line.startswith("  without  what makes packages: "), line)
        self.assertTrue(line.endswith("; apt-get install debhelper buildah"), line)

    def test_a_network_of_ones_own_may_be_missing_in_three_ways(self) -> None:
        [line] = self.faults(find=lambda name: None if name == "unshare" else name)
        self.assertTrue(line.endswith("; apt-get install util-linux"), line)
        [line] = self.faults(run=lambda command: False)
        self.assertIn("user namespaces", line)
        [line] = self.faults(run=lambda command: "--map-root-user" in command)
        self.assertIn("  missing  root: the tests of the real firewall are skipped; ", line)

    def test_another_debian_makes_no_release(self) -> None:
        [line] = self.faults(suite=lambda: "trixie")
        self.assertIn("Debian 12: make release and make image need bookworm, and this is tr", line)
        [line] = self.faults(suite=lambda: "")
        self.assertIn("this is no Debian; run them there, or in a container", line)
        suite = recipe("suite.py")
        self.assertEqual(suite.SUITE, SUITE)
        other = {"VERSION_CODENAME": "trixie", "PRETTY_NAME": "Debian GNU/Linux 13 (trixie)"}
        with mock.patch("platform.freedesktop_os_release", return_value=other):
            error = self.assertRaises(SystemExit, suite.need_suite)
        self.assertIn("on Debian 12 (bookworm), and this is Debian GNU/Linux 13", str(error))
        with mock.patch(
            "platform.freedesktop_os_release", return_value={"VERSION_CODENAME": SUITE}
        ):
            suite.need_suite()

    def test_what_is_too_little(self) -> None:
        changed: tuple[dict[str, Any], ...] = (
            {"version": (3, 10)},
            {"run": lambda command: False},
            {"free": lambda folder: 1 << 20},
            {"memory": lambda: 1 << 20},
            {"files": lambda: 1_024},
            {"binds": lambda address: False},
        )
        for one in changed:
            self.assertEqual(len(self.faults(**one)), 1, one)

    def test_what_ci_installs_is_looked_for(self) -> None:
        packages = {word for *_, package in PROGRAMS for word in package.split()}
        self.assertEqual(installed_by("run") - packages, {"make"})
        browser = HEADLESS  # which the tour of a first evening uses, and the list above has
        self.assertEqual(installed_by("packages"), {"make", browser, *RELEASING.values()})


def installed_by(script: str) -> set[str]:
    """The Debian packages that a script of .ci/ asks for."""
    listed = re.search(r"packages=\((.*)\)", (ROOT / ".ci" / script).read_text())
    assert listed is not None
    return set(listed[1].split())


class ScratchTests(SynchronousTestCase):
    """Where tests write: ``make test`` asks."""

    def folder(
        self, room: int = scratch.ROOM, available: int = 2 * scratch.ROOM, flags: int = 0
    ) -> str:
        def look(folder: str) -> os.statvfs_result:
            if folder != self.place:
                raise FileNotFoundError(folder)
            return os.statvfs_result((4096, 4096, 0, 0, room // 4096, 0, 0, 0, flags, 255))

        return scratch.folder({}, look, available)

    def setUp(self) -> None:
        self.place = tempfile.gettempdir()  # whatever it is, it can be written to
        self.patch(scratch, "MEMORY", self.place)
        self.patch(tempfile, "tempdir", "/the/disk")

    def test_in_memory_where_it_fits(self) -> None:
        self.assertEqual(self.folder(), self.place)

    def test_else_on_the_disk(self) -> None:
        small = self.folder(room=64 << 20), self.folder(available=scratch.ROOM)
        self.assertEqual({*small, self.folder(flags=os.ST_NOEXEC)}, {"/the/disk"})
        self.place = "/not/there"
        self.assertEqual(self.folder(), "/the/disk")

    def test_where_somebody_has_said_so(self) -> None:
        self.assertEqual(scratch.folder({"TMPDIR": "/mine"}, os.statvfs, 1 << 40), "/mine")


class WatchTests(SynchronousTestCase):
    """What must happen soon is given the time that the machine has for us."""

    def test_what_others_took_counts_for_little(self) -> None:
        naps = iter((NAP_S, NAP_S, 5.0, NAP_S))
        now = 0.0

        def nap(seconds: float) -> bool:
            nonlocal now
            taken = next(naps, None)
            now += taken or 0.0
            return taken is None

        over = mock.Mock(wait=nap)
        watch = Watch(lambda: now)
        watch._over = over
        with watch:
            watch._thread.join()
        self.assertAlmostEqual(watch.seconds, 5 * NAP_S)

    def test_it_goes_with_the_clock_and_ends(self) -> None:
        began = time.monotonic()
        with Watch() as watch:
            while not watch.seconds:
                Event().wait(NAP_S)
        self.assertLessEqual(watch.seconds, time.monotonic() - began)
        self.assertFalse(watch._thread.is_alive())

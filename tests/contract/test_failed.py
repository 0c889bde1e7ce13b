"""``make test`` ends with what failed in its three parts, and leaves nothing when interrupted."""

from __future__ import annotations

import os
import select
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from twisted.trial.unittest import SynchronousTestCase

from tests.ctl.command import nowhere
from tests.support import failed, shared

ROOT = Path(__file__).parents[2]
# in place of the interpreter: says who it is, and waits; the fast half is as one that still starts
# in a shell's background, where it does not hear Ctrl-C
INTERPRETER = """#!/bin/sh
case "$*" in *"not live"*) trap '' INT ;; esac
echo $$ > "$TMPDIR/begun"
exec sleep 1000
"""
FAILING = """#!/bin/sh
case "$*" in *"not live"*) part=fast ;; *alone\\ tests*) part=alone ;; *) part=live ;; esac
echo "the test of $part" >> "$SVC_TEST_FAILED"
[ $part = live ]
"""


class TellingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.file = nowhere(self)
        self.patch(os, "environ", {**os.environ, failed.FILE: str(self.file)})

    def tell(self) -> None:
        reports = [SimpleNamespace(nodeid=one) for one in ("tests/a.py::one[x y]", "tests/b.py")]
        failed.tell({"failed": reports, "error": reports[1:], "passed": reports})

    def test_each_is_told_once_as_a_command(self) -> None:
        self.patch(shared, "begun_by", os.getpid)
        self.tell()
        lines = [
            f".venv/bin/python -m pytest {one}\n"
            for one in ("'tests/a.py::one[x y]'", "tests/b.py")
        ]
        self.assertEqual(self.file.read_text(), "".join(lines))

    def test_a_run_within_a_test_tells_nobody(self) -> None:
        self.patch(shared, "begun_by", os.getppid)
        self.tell()
        self.assertFalse(self.file.exists())


def make_test(folder: Path, interpreter: str) -> subprocess.Popen[str]:
    """``make test`` with something else for an interpreter, as a terminal starts it."""
    (folder / "python").write_text(interpreter)
    (folder / "python").chmod(0o755)
    stamp = folder / "dev.stamp"
    stamp.touch()
    words = ["make", "test", f"VENV={folder}", f"BIN={folder}", f"--assume-old={stamp}"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    return subprocess.Popen(
        words,
        cwd=ROOT,
        env={**outside, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


@pytest.mark.live
def test_what_failed_in_each_part_is_shown_in_the_end(tmp_path: Path) -> None:
    with make_test(tmp_path, FAILING) as making:
        said = making.communicate()[0].splitlines()
    assert making.returncode != 0
    assert said[-5:-3] == [
        "make test: the fast half 1, the live half 0, what runs alone 1 (0: passed)",
        "what failed, each alone:",
    ]
    assert sorted(said[-3:]) == [f"the test of {part}" for part in ("alone", "fast", "live")]


@pytest.mark.live
def test_an_interrupt_ends_the_fast_half_too(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    with open(os.open(begun, os.O_RDWR)) as heard, make_test(tmp_path, INTERPRETER) as making:
        parts = [os.pidfd_open(int(heard.readline())) for _ in ("fast", "live")]
        os.killpg(making.pid, signal.SIGINT)
        making.communicate()
    for part in parts:
        with os.fdopen(part):
            assert select.select([part], [], [], 30)[0]

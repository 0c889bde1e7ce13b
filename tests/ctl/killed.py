"""A runner for ``svcctl`` in a child process that is killed at a given step."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from svcserver.ctl import begun
from tests.ctl.command import svcctl

KILLED = -signal.SIGKILL
RAISED = 99  # the status of a child that raises
LONGEST_S = 60  # a child that hangs is ended
CHANGES = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "sqlite3.connect")


def killed_at_rename(number: int) -> None:
    """Kill this process just before its ``number``-th rename.

    Renames in the working folder, and Python's own renames of compiled files, do not count.
    """
    count = 0

    def hear(event: str, sent: tuple[object, ...]) -> None:
        nonlocal count
        if event == "os.rename" and begun.WORK not in str(sent[1]) and ".pyc" not in str(sent[0]):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def killed_at_put(name: str) -> None:
    """Kill this process just before it puts the file with this name into place."""

    def hear(event: str, sent: tuple[object, ...]) -> None:
        if event == "os.rename" and str(sent[1]).endswith(f"/{name}"):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def killed_at_step(number: int, folder: Path) -> None:
    """Kill this process just before its ``number``-th operation on a file in ``folder``."""
    count = 0

    def hear(event: str, sent: tuple[object, ...]) -> None:
        nonlocal count
        if event in CHANGES and any(str(folder) in str(argument) for argument in sent):
            count += 1
            if count == number:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hear)


def child(
    trap: Callable[[], object],
    *words: object,
    meanwhile: Callable[[int], object] = lambda pid: None,
) -> int:
    """Run ``svcctl`` in a child process and return the exit status.

    ``trap`` is called in the child before the command, and arranges for the child to be killed.
    ``meanwhile`` is called in this process with the child's pid.
    """
    pid = os.fork()
    if not pid:
        status = RAISED
        try:
            signal.alarm(LONGEST_S)
            os.close(1)
            trap()
            status = svcctl(*words).status
        except BaseException:  # the child must never return into pytest
            traceback.print_exc()
        finally:
            os._exit(status)
    meanwhile(pid)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

"""Does what a metagame wishes: ends the stack, or begins it anew."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.logger import Logger

from svcserver.kernel import stack_wish
from svcserver.kernel.every import Every
from svcserver.kernel.system import epoch

log = Logger()
EVERY_S = 2.0


def wishes(reactor: Any, folder: Path, again: Callable[[], object]) -> IService:
    """The service that looks for wishes in ``folder``; ``again`` lets the end be a beginning."""

    def look() -> None:
        wished = stack_wish.take(folder, epoch())
        if wished is None:
            return
        log.info("the server is empty and the stack is to {wish}: it stops", wish=wished)
        if wished == "restart":
            again()
        reactor.stop()

    return Every(reactor, EVERY_S, look, "the look for what the metagame wishes")


def begin_again() -> None:
    """At the end of this process run its command line in its place, with the code as it is then."""
    atexit.register(_replace)


def _replace() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - ourselves

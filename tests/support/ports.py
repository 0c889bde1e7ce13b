"""Ports of one worker: tests that run side by side look for free ones in different places."""

from __future__ import annotations

import os
import zlib


def share(first: int, last: int) -> list[int]:
    """This worker's ports of ``first`` to ``last``; another run on this machine begins elsewhere.

    A port that has been found free is bound only when its service has started, so nobody else
    may look for one among the same.
    """
    size = last - first
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())).encode()
    width = size // workers
    start = zlib.crc32(run) % size + int(worker) * width
    return [first + number % size for number in range(start, start + width)]

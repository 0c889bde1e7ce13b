"""Port ranges, one per test worker, so that parallel tests choose different free ports."""

import os
import zlib


def share(first: int, last: int) -> list[int]:
    """Return this worker's part of the ports ``first`` to ``last``.

    A free port is bound only when the service starts, so no other worker may search the same range.
    Each test run starts its search at a different port.
    """
    size = last - first
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid())).encode()
    width = size // workers
    start = zlib.crc32(run) % size + int(worker) * width
    return [first + number % size for number in range(start, start + width)]

"""A session on a whole host whose metagame is restarted or killed meanwhile."""

import os
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from svcserver.ctl.blueprint import Scale
from tests.ctl.hosts import PATIENCE_S, demo_host, read_output, run, stack
from tests.live.test_stack import pid_of
from tests.support import prestarted
from tests.support.processes import eventually

AWAY = re.compile(r"the metagame is back after ([\d.]+) s")
MARGIN_S = 5.0  # of play after the last call of ``harm``


def rolled(folder: Path) -> None:
    """Restart the metagame as an owner does."""
    done = run("restart", "--rolling", "--config", folder)
    assert done.returncode == 0, done.stderr + read_output(folder)


def killed(folder: Path) -> None:
    """Kill the metagame with SIGKILL and let the stack restart it."""
    pid = pid_of(folder, "metagame")
    assert pid is not None, read_output(folder)[-2000:]
    os.kill(pid, signal.SIGKILL)


def host(folder: Path, *, scale: Scale | None = None, **gateway: str) -> Path:
    """Create a demo host whose rate limits allow many players from one address.

    All players connect from this machine, and log in again after each restart.
    """
    demo_host(folder, scale)
    settings = dict.fromkeys(("GATEWAY_RATE_TOKEN", "GATEWAY_RATE_WS"), "5000,60000") | gateway
    with (folder / "gateway.env").open("a") as file:
        file.writelines(f"{name}={value}\n" for name, value in settings.items())
    return folder


def evening(
    folder: Path,
    players: int,
    seconds: float,
    harm: Callable[[Path], None],
    every_s: float,
    *words: str,
    itself: bool = False,
) -> dict[str, Any]:
    """Let players play while ``harm`` is called repeatedly, and return their report.

    The session lasts ``seconds``, or longer if the last call has not ended or players are not yet
    connected again. If ``itself`` is true, each process starts as an owner starts it, not as a fork
    of a process that has already imported everything.
    """
    with (
        stack(folder, itself=itself),
        tempfile.TemporaryFile("w+b") as out,
        tempfile.TemporaryFile("w+b") as err,
    ):
        eventually(lambda: "stack ready" in read_output(folder), PATIENCE_S)
        enough = folder / "enough"
        line = [str(folder), "--players", str(players), "--seconds", str(seconds), *words]
        line += ["--enough", str(enough)]
        program = "tests.live.restart_players:main"
        process = prestarted.start(
            line, os.environ, folder, out.fileno(), err.fileno(), program=program
        )

        def printed(file: Any) -> bytes:
            return os.pread(file.fileno(), 1 << 20, 0)

        try:
            eventually(lambda: b"ready" in printed(out) or process.poll() is not None, PATIENCE_S)
            assert process.poll() is None, printed(err)
            end, harms = time.monotonic() + seconds - MARGIN_S, 0
            while time.monotonic() + every_s < end:
                time.sleep(every_s)
                harm(folder)
                harms += 1
            enough.touch()
            status = process.wait(seconds + PATIENCE_S)
            assert status == 0, (status, printed(out), printed(err))
        finally:
            process.kill()
        report: dict[str, Any] = orjson.loads(printed(out).splitlines()[-1])
        away = [float(path) for path in AWAY.findall(read_output(folder))]
        return report | {"harms": harms, "away_s": away}

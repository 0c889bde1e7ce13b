"""The scripted session of ``svcctl demo`` on services that already run.

Tests of faults in the session use this module instead of a stack. A stack would start six processes
that import everything again, which would take most of the test's time.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from svcserver.ctl.host import find
from svcserver.ctl.output import Out, fail
from svcserver.ctl.play.evening import PlayOptions
from svcserver.ctl.play_command import Session, relay_port_of, run
from svcserver.stack.components import components, environment
from tests.ctl.hosts import PATIENCE_S, completed
from tests.support import prestarted
from tests.support.processes import READY, eventually


@click.command("evening")
@click.argument("folder")
def main(folder: str) -> None:
    """Run the session in this process; exit as ``svcctl demo --once`` does."""
    host = find(folder, None)
    options = PlayOptions(2, 1, relay_port=relay_port_of(host), whole=True)
    why = run(Session(host, Out(False), options))
    if why is not None:
        fail(f"the session failed at the {why}")


@contextmanager
def services(folder: Path) -> Iterator[None]:
    """Start the host's services without a relay, because each simulated player has a relay."""
    running = []
    try:
        for path in components(folder):
            words = [
                "--nodaemon",
                "--pidfile=",
                f"svc-{path.name}",
                "--env-file",
                str(path.env_file),
            ]
            log = folder / f"{path.name}.log"
            with log.open("wb") as out:
                process = prestarted.start(words, environment(os.environ), folder, out.fileno())
            running.append((process, log))
        for process, log in running:
            eventually(lambda log=log: READY.search(log.read_text()))
            assert process.poll() is None, log.read_text()
        yield
    finally:
        for process, _ in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process, _ in running:
            process.wait(PATIENCE_S)


def play(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a session of two players with every part enabled."""
    return completed([str(folder)], folder, f"{__name__}:main")

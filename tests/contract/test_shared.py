"""What test workers share ends with their run, and one worker's fault is no other's."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.processes import started_at
from tests.contract.test_leftovers import ROOT
from tests.ctl.command import nowhere
from tests.support import prestarted, shared
from tests.support.postgres import Instance
from tests.support.processes import eventually

A_RUN = """
import time
from tests.support import postgres, shared
postgres.fresh_database()
print(shared.folder(), postgres._shared().folder, flush=True)
time.sleep(600)
"""


@pytest.mark.live
def test_a_killed_run_leaves_no_postgresql_and_no_files(tmp_path: Path) -> None:
    Instance.there(tmp_path)  # skips where there is none
    alone = {name: said for name, said in os.environ.items() if name != shared.NAME}
    environ = {**alone, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", A_RUN]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            made, postgres = map(Path, run.stdout.readline().split())
            server = int((postgres / "data" / "postmaster.pid").read_text().splitlines()[0])
            watching = int((made / shared.WATCHED).read_text())
            assert started_at(server) is not None
        finally:
            run.kill()
    eventually(lambda: started_at(watching) is None)
    assert started_at(server) is None
    assert not made.exists()
    assert not postgres.exists()


A_WORKER = """
import sys, time
from pathlib import Path
from tests.support import prestarted, shared
print(shared.folder(), flush=True)
program = prestarted.start([], {"HOME": "/"}, Path(), 1, program="signal:pause")
print(program.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.live
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_what_a_test_has_started_ends_with_its_run(how: int) -> None:
    alone = {name: said for name, said in os.environ.items() if name != shared.NAME}
    environ = {**alone, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", A_WORKER]
    with subprocess.Popen(
        command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        assert run.stdout is not None
        made = Path(run.stdout.readline().strip())
        pid = int(run.stdout.readline())
        assert started_at(pid) is not None
        run.send_signal(how)
    eventually(lambda: started_at(pid) is None)
    eventually(lambda: not made.exists())


DEAF = "trap '' TERM; echo deaf; exec sleep 600"


@pytest.mark.live
def test_what_hears_nothing_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(
        ["sh", "-c", DEAF], stdout=subprocess.PIPE, start_new_session=True
    ) as deaf:
        assert deaf.stdout is not None and deaf.stdout.readline() == b"deaf\n"
        monkeypatch.setattr(prestarted, "STOP_S", 0.0)
        monkeypatch.setattr(prestarted, "_forked", {deaf.pid})
        prestarted._end_forked()
        assert started_at(deaf.pid) is None


class ForkingTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = nowhere(self)
        folder.mkdir(parents=True)
        self.door = os.path.relpath(folder / "door")  # the kernel knows no long names
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(self.door)
        listening.listen()
        run = os.pidfd_open(os.getpid())
        self.addCleanup(os.close, run)
        self.addCleanup(listening.close)
        self.serving = Thread(target=prestarted._serve, args=(listening, run), daemon=True)
        self.serving.start()
        self.addCleanup(self.end)

    def end(self) -> None:
        prestarted.end_shared(self.door)
        self.serving.join(prestarted.END_S)
        self.assertFalse(self.serving.is_alive())

    def test_a_wish_that_cannot_be_granted_fails_for_its_worker_alone(self) -> None:
        first, second = (prestarted.Parent(self.door) for _ in range(2))
        not_its_child = {"reap": os.getpid()}
        for parent in (first, second, first):
            why = self.assertRaises(OSError, parent.ask, not_its_child)
            self.assertIn("ChildProcessError", str(why))
        for parent in (first, second):
            parent.close()

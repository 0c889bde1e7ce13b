"""A child process with a fake transport: its output, its end, and how it is ended."""

import errno
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from attrs import define, field
from twisted.internet.error import ProcessDone, ProcessExitedAlready
from twisted.internet.task import Clock
from twisted.logger import capturedLogs
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import process as processes
from svcserver.deploy.process import GameProcess, Output, Spawner, check_program
from tests.deploy.test_background import FakeFamily
from tests.support.proves import proves

PID = 2**22 + 7  # higher than any pid that Linux assigns


@define
class Transport:
    """A child's transport that records its calls."""

    pid: int | None = PID
    refuse: Exception | None = None
    signals: list[str] = field(factory=list)
    stdin_closed: bool = False

    def signalProcess(self, how: str) -> None:
        if self.refuse is not None:
            raise self.refuse
        self.signals.append(how)

    def loseConnection(self) -> None:
        """Do nothing."""

    def closeStdin(self) -> None:
        self.stdin_closed = True


class FullDisk:
    """A file on a full disk."""

    def __init__(self) -> None:
        self.full = True
        self.held = b""

    def write(self, data: bytes) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.held += data
        return len(data)

    def close(self) -> None:
        """Do nothing."""


class OutputTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = self.folder / "logs" / "city-8777.log"

    def begun(self) -> Output:
        output = Output(self.path)
        output.begin()
        self.addCleanup(output.close)
        return output

    def test_no_file_is_made_before_the_process_runs(self) -> None:
        Output(self.path)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_output_of_the_previous_server_is_kept(self) -> None:
        self.begun().write(b"crashed here\n")
        self.begun().write(b"hello\n")
        self.assertEqual(self.path.read_bytes(), b"hello\n")
        self.assertEqual(self.path.with_suffix(".old").read_bytes(), b"crashed here\n")

    def test_only_the_owner_may_read_the_output(self) -> None:
        self.path.parent.mkdir()
        self.path.write_bytes(b"of an older version")
        self.path.chmod(0o644)
        self.begun()
        for path in (self.path, self.path.with_suffix(".old")):
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)

    def test_output_files_stay_below_their_limit(self) -> None:
        self.patch(processes, "MAX_OUTPUT", 10)
        output = self.begun()
        for word in (b"aaaa", b"bbbb", b"cccc", b"d" * 30):
            output.write(word)
        sizes = {file.name: file.stat().st_size for file in self.path.parent.iterdir()}
        self.assertEqual(sizes, {"city-8777.log": 10, "city-8777.old": 4})

    @proves("deploy: 500 no_game_server")
    def test_full_disk_is_logged_once_and_output_resumes(self) -> None:
        output = self.begun()
        output.close()
        full = FullDisk()
        output._file = full  # type: ignore[assignment]  # all that is used of a file
        with capturedLogs() as events:
            for _ in range(3):
                output.write(b"lost")
        self.assertEqual([event["log_level"].name for event in events], ["warn"])
        full.full = False
        output.write(b"kept")
        self.assertEqual(full.held, b"kept")

    def test_failure_to_make_the_folder_loses_only_the_output(self) -> None:
        self.path.parent.write_text("in the way")
        with capturedLogs() as events:
            self.begun().write(b"lost")
        self.assertEqual([event["log_level"].name for event in events], ["warn"])


class LastWordsTests(SynchronousTestCase):
    def test_last_output_is_read_before_the_pipes_are_closed(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory()), "hunt.log")
        ours, its = os.pipe()
        os.write(its, b"x" * 50_000 + b"crashed here\n")
        process = GameProcess(Output(path), lambda how: None)
        transport = Transport()
        reactor = Reactor()
        process.read_from(reactor, ours)
        process.makeConnection(transport)
        process.processExited(Failure(ProcessDone(0)))  # the pipe is still open in a grandchild
        os.close(its)
        process.processEnded(Failure(ProcessDone(0)))
        self.assertTrue(path.read_bytes().endswith(b"xcrashed here\n"))
        self.assertEqual(path.stat().st_size, 50_013)
        os.fstat(ours)  # a new connection with this number would receive the old one's last event
        reactor.advance(0)
        self.assertRaises(OSError, os.fstat, ours)


class ProcessTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.ended: list[str] = []
        self.process = GameProcess(None, self.ended.append)
        self.transport = Transport()
        self.process.makeConnection(self.transport)
        self.groups: list[tuple[int, int]] = []
        self.patch(os, "killpg", lambda *sent: self.groups.append(sent))

    def test_a_signal_goes_to_the_whole_group(self) -> None:
        self.process.group = PID
        self.process.kill("TERM")
        self.process.kill("KILL")
        self.assertEqual(self.groups, [(PID, signal.SIGTERM), (PID, signal.SIGKILL)])
        self.assertEqual(self.transport.signals, [])

    def test_process_without_a_group_is_signalled_alone(self) -> None:
        self.process.kill("TERM")
        self.process.group = PID
        self.patch(os, "killpg", self.no_group)
        self.process.kill("KILL")
        self.assertEqual((self.groups, self.transport.signals), ([], ["TERM", "KILL"]))

    def no_group(self, group: int, how: int) -> None:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    def test_signal_to_an_ended_process_marks_it_as_over(self) -> None:
        self.transport.refuse = ProcessExitedAlready()
        self.process.kill("TERM")
        self.assertTrue(self.process.over)

    @proves("no orphan, no leak")
    def test_refused_signal_is_logged(self) -> None:
        self.transport.refuse = PermissionError(errno.EPERM, "Operation not permitted")
        with capturedLogs() as events:
            self.process.kill("KILL")
        self.assertEqual([event["log_level"].name for event in events], ["error"])

    def test_process_is_alive_while_its_pid_runs(self) -> None:
        # the process does not exist, although no exit was reported
        self.assertFalse(self.process.alive)
        self.transport.pid = os.getpid()
        self.assertTrue(self.process.alive)
        self.process.processExited(Failure(ProcessDone(0)))
        self.assertFalse(self.process.alive)

    @proves("no orphan, no leak")
    def test_process_counts_as_alive_if_it_cannot_be_checked(self) -> None:
        self.patch(Path, "read_text", self.too_many)
        self.assertTrue(self.process.alive)

    def too_many(self) -> str:
        raise OSError(errno.EMFILE, "Too many open files")


class Reactor(Clock):
    """A reactor that records what it spawns."""

    def __init__(self) -> None:
        super().__init__()
        self.started: list[tuple[str, list[str], dict[str, Any]]] = []
        self.transport = Transport()
        self.readers: list[Any] = []

    def addReader(self, reader: Any) -> None:
        self.readers.append(reader)

    def removeReader(self, reader: Any) -> None:
        self.readers.remove(reader)

    def spawnProcess(self, process: Any, program: str, words: list[str], **more: Any) -> Transport:
        self.started.append((program, words, more))
        process.makeConnection(self.transport)
        return self.transport


class QuickReactor(Reactor):
    """A reactor whose child ends within ``spawnProcess``, as on a busy machine."""

    def spawnProcess(self, process: Any, program: str, words: list[str], **more: Any) -> Transport:
        transport = super().spawnProcess(process, program, words, **more)
        transport.pid = None
        process.processExited(Failure(ProcessDone(0)))
        return transport


class SpawnerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.program = self.folder / "run-windows"
        self.program.write_text("#!/bin/sh\n")
        self.program.chmod(0o700)
        self.reactor = Reactor()
        self.process = GameProcess(None, lambda how: None)

    def spawner(self, **more: Any) -> Spawner:
        return Spawner(self.reactor, "/bin/python", {"PATH": str(self.folder)}, **more)

    def test_launcher_is_found_on_the_path(self) -> None:
        self.spawner().spawn(self.process, ["run-windows", "game.exe", "key"], {"X": "1"})
        [(program, words, more)] = self.reactor.started
        self.assertEqual(program, "/bin/python")
        self.assertEqual(words[-3:], [str(self.program), "game.exe", "key"])
        executed = self.process.when_executed()
        self.assertNoResult(executed)
        # the other ends are closed, so the program has been executed
        for pipe in list(self.reactor.readers):
            pipe.doRead()
        self.successResultOf(executed)
        self.assertEqual(self.reactor.readers, [])
        self.assertEqual(more["env"], {"PATH": str(self.folder), "X": "1"})
        self.assertEqual(self.process.group, PID)

    def test_path_with_a_slash_is_not_searched(self) -> None:
        for path in ("./run-windows", "nowhere/run-windows", "run-windoze"):
            with self.assertRaises(FileNotFoundError):
                check_program(path, str(self.folder))

    def test_program_is_started_directly_without_process_groups(self) -> None:
        spawner = self.spawner(own_group=False)
        self.assertEqual(spawner.spawn(self.process, [str(self.program), "key"], {}), PID)
        [(program, words, more)] = self.reactor.started
        self.assertEqual((program, words), (str(self.program), [str(self.program), "key"]))
        self.assertNotIn("childFDs", more)  # Windows has no file descriptors to pass
        self.assertTrue(self.reactor.transport.stdin_closed)
        self.assertIsNone(self.process.group)

    @proves("no orphan, no leak")
    def test_launcher_that_ends_within_its_start_leaves_its_server_pid(self) -> None:
        self.reactor = QuickReactor()
        family: Any = FakeFamily()
        family.add(20)
        self.process.family = family
        self.assertEqual(self.spawner().spawn(self.process, ["run-windows"], {}), 20)
        self.assertEqual((self.process.over, family.leader), (False, PID))

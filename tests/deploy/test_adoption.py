"""Processes left from an earlier run: game servers to adopt, and processes to kill."""

import errno
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import orphans, saved_servers
from svcserver.deploy.family import POLL_S
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.hunts import GameServerKind, Launch
from svcserver.deploy.orphans import MARK, end_left_over, mark, wait_for
from svcserver.deploy.process import AdoptedTransport, GameProcess, adopt
from svcserver.deploy.saved_servers import SavedServer, SavedServers
from svcserver.kernel.processes import boot_id, started_at
from tests.ctl.command import nowhere
from tests.support.proves import proves

PID = 2**22 + 42  # higher than any pid that Linux assigns


class EndedTests(SynchronousTestCase):
    def test_signal_to_a_process_that_has_ended_is_no_error(self) -> None:
        def gone(*_: int) -> None:
            raise ProcessLookupError

        self.patch(os, "kill", gone)
        self.patch(os, "killpg", gone)
        process = GameProcess(None, lambda how: None)
        process.attach(AdoptedTransport(Clock(), 4242, process), 4242)
        process.kill("TERM")
        self.assertTrue(process.over)
        self.successResultOf(process.when_over())


class OursTests(SynchronousTestCase):
    """A saved pid sometimes belongs to another process when the game server is to be adopted."""

    def setUp(self) -> None:
        self.calls: list[str] = []
        self.patch(os, "pidfd_open", self.open)

    def open(self, pid: int) -> int:
        """Return a file descriptor that belongs to no process."""
        self.calls.append("opened")
        handle = os.open(os.devnull, os.O_RDONLY)
        self.opened = handle
        return handle

    def adopt(self, ours: bool) -> None:
        def is_ours() -> bool:
            self.calls.append("looked at")
            return ours

        self.reactor: Any = MemoryReactorClock()
        adopt(self.reactor, GameProcess(None, lambda how: None), 4242, is_ours)
        self.assertEqual(len(self.reactor.getReaders()), 1)
        self.addCleanup(os.close, self.opened)

    def test_process_is_checked_after_its_pidfd_is_open(self) -> None:
        self.adopt(ours=True)
        self.assertEqual(self.calls, ["opened", "looked at"])

    def test_process_of_another_is_not_adopted(self) -> None:
        self.assertRaises(ProcessLookupError, self.adopt, ours=False)
        self.reactor.advance(0)
        self.assertRaises(OSError, os.fstat, self.opened)


class RefusedPidfdTests(SynchronousTestCase):
    def test_process_without_a_pidfd_is_adopted_and_polled(self) -> None:
        def refuse(pid: int) -> int:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        self.patch(os, "pidfd_open", refuse)
        sent: list[tuple[int, int]] = []
        self.patch(os, "kill", lambda *words: sent.append(words))
        reactor: Any = MemoryReactorClock()
        ended: list[str] = []
        process = GameProcess(None, ended.append)
        lives = [True]
        adopt(reactor, process, PID, lambda: lives[0])
        reactor.advance(POLL_S)
        process.transport.signalProcess("TERM")
        self.assertEqual((sent, ended), ([(PID, signal.SIGTERM)], []))
        lives.clear()
        lives.append(False)
        reactor.advance(POLL_S)
        self.assertEqual((ended, reactor.getDelayedCalls()), (["code unknown"], []))

    def test_killed_process_is_waited_for_without_a_pidfd(self) -> None:
        def refuse(pid: int) -> int:
            raise PermissionError(errno.EPERM, "Operation not permitted")

        self.patch(os, "pidfd_open", refuse)
        looks = [100, 100, None]
        self.patch(orphans, "POLL_S", 0.0001)
        self.patch(orphans, "started_at", lambda pid: looks.pop(0))
        orphans.wait_for([PID])
        self.assertEqual(looks, [])


OWN_MARK = f"{MARK}=127.0.0.1:61001"
HUNT = Launch(
    GameServerKind.HUNT, "/Game/Maps/x", hunt_id="H", players=("UID-a", "UID-b"), match_id="m"
)


class SavedServersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.saved = SavedServers(self.folder / "state")
        self.patch(saved_servers, "started_at", lambda pid, processes=None: 100 + pid)

    def process(self, pid: int, start: int, mark: str = OWN_MARK, state: str = "S") -> None:
        """Return a process in the form in which the kernel lists it."""
        folder = self.folder / "proc" / str(pid)
        folder.mkdir(parents=True)
        fields = " ".join([state, *["0"] * 18, str(start), "0"])
        (folder / "stat").write_text(f"{pid} (a ) b) {fields}")
        (folder / "environ").write_bytes(b"A=1\0" + mark.encode() + b"\0")

    def test_record_is_private_and_loads_unchanged(self) -> None:
        server = GameServer("id-1", 8775, HUNT, 77, 1000.5, "hash")
        self.saved.save(server)
        self.assertEqual(self.saved.load_all(), [SavedServer(server, 177, boot_id())])
        [file] = (self.folder / "state").iterdir()
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.saved.delete("id-1")
        self.assertEqual(self.saved.load_all(), [])

    def test_damaged_record_is_deleted_with_a_log_line(self) -> None:
        self.saved.save(GameServer("id-1", 8775, HUNT, 77, 1000.5))
        [file] = (self.folder / "state").iterdir()
        whole = file.read_text()
        for text in (whole[:40], "", "[]", whole.replace('"form":1', '"form":2'), "{}"):
            file.write_text(text)
            with capturedLogs() as events:
                self.assertEqual(self.saved.load_all(), [])
            self.assertEqual([event["log_level"].name for event in events], ["warn"])
            self.assertFalse(file.exists())

    def test_half_written_record_is_deleted(self) -> None:
        self.saved.save(GameServer("id-1", 8775, HUNT, 77, 1000.5))
        (self.folder / "state" / "id-2.new").write_text('{"form":1')
        self.assertEqual(len(self.saved.load_all()), 1)
        self.assertEqual([file.suffix for file in (self.folder / "state").iterdir()], [".json"])

    def test_only_the_recorded_process_counts_as_running(self) -> None:
        self.patch(saved_servers, "started_at", started_at)
        self.process(77, 500)
        self.process(78, 501)
        self.process(79, 500, "SVC_DEPLOY_SERVER=127.0.0.1:6")
        self.process(80, 500, state="Z")
        running = [
            SavedServer(GameServer("i", 1, HUNT, pid, 0.0), 500).is_running(
                OWN_MARK, self.folder / "proc"
            )
            for pid in (77, 78, 79, 80, 81)
        ]
        self.assertEqual(running, [True, False, False, False, False])

    def test_start_tick_is_enough_within_one_boot(self) -> None:
        self.patch(saved_servers, "started_at", started_at)
        self.process(77, 500, mark="")
        file = self.folder / "proc" / "sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True)
        file.write_text("this\n")
        server = GameServer("i", 1, HUNT, 77, 0.0)
        running = [
            SavedServer(server, started, boot).is_running(OWN_MARK, self.folder / "proc")
            for started, boot in ((500, "this"), (501, "this"), (500, "that"), (500, ""))
        ]
        self.assertEqual(running, [True, False, False, False])

    def test_server_is_not_adopted_if_its_port_does_not_fit(self) -> None:
        fleet = Fleet(8770, 8777)
        city = Launch(GameServerKind.CITY, "/Game/x")
        self.assertTrue(fleet.adopt(GameServer("a", 8777, city, 1, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("b", 8777, city, 2, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("c", 9000, HUNT, 3, 0.0)))
        self.assertTrue(fleet.adopt(GameServer("d", 8772, HUNT, 4, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("e", 8772, HUNT, 5, 0.0)))


class OrphanTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.processes = nowhere(self)
        self.killed: list[tuple[int, int]] = []
        self.waited: list[int] = []
        self.patch(os, "kill", self.kill)
        self.patch(orphans, "wait_for", self.waited.extend)

    def kill(self, pid: int, how: int) -> None:
        if pid == 44:
            raise ProcessLookupError("gone")
        self.killed.append((pid, how))

    def add(self, name: str, environ: str, network: str = "") -> None:
        folder = self.processes / name
        folder.mkdir(parents=True)
        folder.joinpath("environ").write_bytes(environ.encode())
        if network:
            (folder / "ns").mkdir()
            (folder / "ns" / "net").symlink_to(network)

    @proves("no orphan, no leak")
    def test_only_processes_with_this_address_are_killed(self) -> None:
        self.assertEqual(mark("127.0.0.1", 61001), {MARK: "127.0.0.1:61001"})
        mine = f"PATH=/bin\0{MARK}=127.0.0.1:61001\0"
        self.add("41", mine)
        self.add("42", f"{MARK}=127.0.0.1:6100\0")
        self.add("43", f"X={MARK}=127.0.0.1:61001\0")
        self.add("44", mine)
        self.add(str(os.getpid()), mine)
        self.add("self", mine)
        (self.processes / "45").mkdir()
        self.assertEqual(end_left_over("127.0.0.1", 61001, self.processes), 1)
        self.assertEqual(self.killed, [(41, signal.SIGKILL)])
        self.assertEqual(self.waited, [41])

    @proves("no orphan, no leak")
    def test_processes_in_another_network_are_spared(self) -> None:
        mine = f"{MARK}=127.0.0.1:61001"
        self.add("self", mine, "net:[1]")
        self.add("41", mine, "net:[1]")
        self.add("42", mine, "net:[2]")
        self.add("43", mine)  # this process is just ending
        end_left_over("127.0.0.1", 61001, self.processes)
        self.assertEqual({pid for pid, _ in self.killed}, {41, 43})

    def test_system_without_a_process_list_kills_nothing(self) -> None:
        self.assertEqual(end_left_over("127.0.0.1", 61001, self.processes / "none"), 0)


class WaitTests(SynchronousTestCase):
    @pytest.mark.live
    @proves("no orphan, no leak")
    def test_killed_process_has_ended_after_the_wait(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        try:
            child.kill()
            wait_for([child.pid])
            self.assertEqual(child.poll(), -signal.SIGKILL)  # only one signal was sent
            wait_for([child.pid])  # gone
        finally:
            child.communicate()

    def test_wait_for_a_process_that_never_ends_stops(self) -> None:
        self.patch(orphans, "ENDING_S", 0.01)
        with capturedLogs() as events:
            wait_for([os.getpid()])
        self.assertEqual([event["log_level"].name for event in events], ["warn"])

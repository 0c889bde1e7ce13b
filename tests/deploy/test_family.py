"""The processes of a game server, in a process table that the test writes."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import family as families
from svcserver.deploy.family import (
    ENDING_POLL_S,
    ENDING_S,
    LOOK_AGE_S,
    POLL_S,
    TAG,
    Family,
    ProcessInfo,
    UdpSocket,
    end_strays,
    list_processes,
    udp_sockets,
)

US, LEADER, PORT = os.getpid(), 2**22 + 10, 8777
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


def row(address: str, port: int, inode: int, unread: int = 0) -> str:
    return f" 1: {address}:{port:04X} 0:0 07 00000000:{unread:08X} 00:0 0 0 0 {inode} 2 0 0\n"


class FamilyCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        reactor: Any = MemoryReactorClock()
        self.family = Family(reactor, "id-1", PORT, LEADER, self.folder)

    def add(
        self,
        pid: int,
        parent: int = 1,
        *,
        group: int = 0,
        started: int = 100,
        state: str = "S",
        tag: str = "",
        name: str = "game) x",
        line: str = "game",
        sockets: tuple[int, ...] = (),
    ) -> int:
        folder = self.folder / str(pid)
        (folder / "fd").mkdir(parents=True)
        words = [state, parent, group or pid, group or pid, *[0] * 15, started, 0, 0]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(map(str, words))}")
        (folder / "environ").write_text(f"A=1\0{TAG}={tag}\0" if tag else "A=1\0")
        (folder / "cmdline").write_text(line.replace(" ", "\0"))
        for number, inode in enumerate(sockets):
            (folder / "fd" / str(number)).symlink_to(f"socket:[{inode}]")
        return pid

    def table(self, *rows: str) -> None:
        (self.folder / "net").mkdir(exist_ok=True)
        (self.folder / "net" / "udp").write_text(HEAD + "".join(rows))

    def pids(self) -> list[int]:
        return [process.pid for process in self.family.members()]


class MemberTests(FamilyCase):
    def test_group_variable_and_descendants_count(self) -> None:
        self.add(LEADER, US)
        self.add(20, 1, group=LEADER)
        self.add(21, 1, tag="id-1")
        self.add(22, 21, started=101)
        self.add(23, 22, started=102)
        self.add(30, 1, tag="id-2")
        self.add(31, 1, tag="id-10")
        self.add(32, 1)
        self.add(US, 1, tag="id-1")
        self.assertEqual(self.pids(), [20, 21, LEADER, 22, 23])

    def test_zombies_and_wines_shared_services_do_not_count(self) -> None:
        self.add(LEADER, US, state="Z")
        self.add(20, 1, tag="id-1", name="wineserver")
        self.add(21, 1, tag="id-1", name="services.exe")
        self.add(22, 1, tag="id-1")
        self.assertEqual(self.pids(), [22])

    def test_later_process_with_the_leaders_pid_is_no_member(self) -> None:
        self.add(20, 1, tag="id-1")
        self.assertEqual(self.pids(), [20])  # the leader has ended
        self.add(LEADER, 1)
        self.assertEqual(self.pids(), [20])

    def test_orphans_without_the_variable_are_known_by_port_or_line(self) -> None:
        self.table(row("00000000", PORT, 77), row("00000000", 53, 78))
        self.add(20, US, sockets=(78, 77))
        self.add(21, US, line=f"game key {PORT} map 127.0.0.1:{PORT}")
        self.add(22, US, sockets=(78,), line=f"game {PORT}")
        self.add(23, 1, sockets=(77,))  # no child of ours
        self.assertEqual(self.pids(), [20, 21])

    def test_known_process_stays_a_member_after_its_parent_ends(self) -> None:
        self.add(LEADER, US)
        self.add(20, LEADER, group=20)
        self.assertEqual(self.pids(), [20, LEADER])
        stat = self.folder / "20" / "stat"
        stat.write_text(stat.read_text().replace(f"S {LEADER} ", "S 1 "))
        for path in (self.folder / str(LEADER)).glob("*"):
            path.rmdir() if path.is_dir() else path.unlink()
        self.assertEqual(self.pids(), [20])

    def test_a_system_without_processes_shows_none(self) -> None:
        self.family.folder = self.folder / "none"
        self.assertEqual((self.pids(), self.family.holder()), ([], None))
        self.assertFalse(self.family.signal(signal.SIGTERM))
        self.assertEqual(list_processes(self.folder / "none"), {})


class PortTests(FamilyCase):
    def test_only_its_own_process_holds_the_port(self) -> None:
        self.table(row("00000000", PORT, 77))
        self.add(LEADER, US)
        self.add(40, 1, sockets=(77,))
        self.assertIsNone(self.family.holder())
        self.add(20, LEADER, sockets=(5, 77))
        self.family.reactor.advance(2 * LOOK_AGE_S)
        holder = self.family.holder()
        self.assertEqual(holder and holder.pid, 20)
        self.assertEqual(self.family.sockets(), {5, 77})

    def test_hidden_descriptors_may_hold_the_port(self) -> None:
        self.add(LEADER, US)
        self.table(row("00000000", PORT, 77))

        def hidden(path: Any) -> list[str]:
            if str(path).endswith("/fd"):
                raise PermissionError
            return listed(path)

        listed = os.listdir
        self.patch(families.os, "listdir", hidden)
        holder = self.family.holder()
        self.assertEqual(holder and holder.pid, LEADER)
        self.assertIsNone(self.family.sockets())

    def test_many_game_servers_share_one_reading_of_processes(self) -> None:
        self.table(row("00000000", PORT, 77))
        self.add(LEADER, 1, sockets=(77,))
        readings: list[Path] = []

        def count(folder: Path) -> Any:
            readings.append(folder)
            return list_processes(folder)

        self.patch(families, "list_processes", count)
        shared = self.family.snapshot
        families_of_others = [
            Family(self.family.reactor, f"id-{n}", PORT, 0, self.folder, shared) for n in range(9)
        ]
        self.assertIsNotNone(self.family.holder())
        self.assertEqual(
            [family.holder() or family.sockets() for family in families_of_others], [set()] * 9
        )
        self.assertEqual(len(readings), 1)
        self.family.reactor.advance(2 * LOOK_AGE_S)
        self.family.holder()
        self.assertEqual(len(readings), 2)

    def test_a_launch_does_not_use_an_earlier_reading(self) -> None:
        self.family.holder()
        self.family.members()
        self.family.reactor.advance(LOOK_AGE_S / 2)
        later = Family(self.family.reactor, "id-2", PORT, LEADER, self.folder, self.family.snapshot)
        self.add(LEADER, US)
        self.assertEqual([process.pid for process in later.members(LOOK_AGE_S)], [LEADER])
        self.assertEqual(later.leader, LEADER)

    def test_odd_rows_of_the_table_are_left_out(self) -> None:
        text = HEAD + row("0100007F", 8777, 5, 300) + "x\n1: 2: 3\n 1: a:zz 0 0 0:0 0 0 0 0 x\n"
        self.assertEqual(udp_sockets([text, ""]), [UdpSocket("0100007F", 8777, 300, 5)])


class SignalTests(FamilyCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(os, "pidfd_open", lambda pid: os.open(os.devnull, os.O_RDONLY))
        self.patch(signal, "pidfd_send_signal", self.send)
        self.patch(families, "started_at", lambda pid, folder: self.started.get(pid, 100))
        self.started: dict[int, int] = {}
        self.signalled: list[int] = []

    def send(self, handle: int, number: int) -> None:
        self.signalled.append(number)
        if number == signal.SIGKILL and len(self.signalled) == 1:
            self.add(21, 1, tag="id-1")  # forked just before

    def test_process_forked_during_a_kill_is_also_killed(self) -> None:
        self.add(20, 1, tag="id-1")
        self.assertTrue(self.family.signal(signal.SIGKILL))
        self.assertEqual(self.signalled, [signal.SIGKILL] * 2)

    def test_a_later_process_with_the_id_gets_no_signal(self) -> None:
        self.add(20, 1, tag="id-1")
        self.started[20] = 101
        self.family.signal(signal.SIGTERM)
        self.assertEqual(self.signalled, [])


class RefusedPidfdTests(FamilyCase):
    """A container's seccomp filter rejects pidfd calls."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(os, "pidfd_open", self.refuse)
        self.patch(os, "kill", self.kill)
        self.killed: list[tuple[int, int]] = []
        self.allowed = True
        self.add(20, 1, tag="id-1")

    def refuse(self, pid: int) -> int:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    def kill(self, pid: int, number: int) -> None:
        if not self.allowed:
            self.refuse(pid)
        self.killed.append((pid, number))

    def test_a_signal_goes_to_the_pid(self) -> None:
        self.assertTrue(self.family.signal(signal.SIGTERM))
        self.assertEqual(self.killed, [(20, signal.SIGTERM)])

    def test_a_later_process_with_the_pid_gets_no_signal(self) -> None:
        self.patch(families, "started_at", lambda pid, folder: 101)
        self.assertFalse(self.family.signal(signal.SIGTERM))
        self.assertEqual(self.killed, [])

    def test_a_signal_that_nobody_received_is_false(self) -> None:
        self.allowed = False
        with capturedLogs() as events:
            self.assertFalse(self.family.signal(signal.SIGTERM))
        self.assertEqual([event["log_level"].name for event in events], ["error"])

    def test_the_end_of_a_process_is_polled_for(self) -> None:
        [process] = self.family.members()
        ended: list[bool] = []
        self.assertIsNotNone(self.family.follow(process, lambda: ended.append(True)))
        self.family.reactor.advance(POLL_S)
        self.assertEqual(ended, [])
        (self.folder / "20" / "stat").unlink()
        self.family.reactor.advance(POLL_S)
        self.assertEqual((ended, self.family.reactor.getDelayedCalls()), ([True], []))

    def test_polling_ends_when_it_is_closed(self) -> None:
        [process] = self.family.members()
        watch = self.family.follow(process, lambda: None)
        assert watch is not None
        watch.close()
        self.assertEqual(self.family.reactor.getDelayedCalls(), [])


class StrayTests(SynchronousTestCase):
    """Orphaned processes that remain after all game servers have ended."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.table: dict[int, ProcessInfo] = {}
        self.signalled: list[int] = []
        self.patch(families, "list_processes", lambda: self.table)
        self.patch(families, "send", lambda process, number: self.signalled.append(process.pid))
        for pid, parent in ((20, US), (21, 20), (22, 21), (30, US), (31, 30), (40, 1)):
            self.table[pid] = ProcessInfo(pid, "game", parent, pid, pid, 100, False)
        families.own_children.add(30)
        self.addCleanup(families.own_children.discard, 30)

    def test_orphans_and_their_descendants_are_killed(self) -> None:
        done = Deferred.fromCoroutine(end_strays(self.clock))
        self.assertEqual(sorted(self.signalled), [20, 21, 22])
        self.assertNoResult(done)
        del self.table[20], self.table[21], self.table[22]
        self.clock.advance(ENDING_POLL_S)
        self.successResultOf(done)

    def test_waiting_for_an_orphan_that_never_ends_stops(self) -> None:
        done = Deferred.fromCoroutine(end_strays(self.clock))
        with capturedLogs() as events:
            self.clock.pump([ENDING_POLL_S] * int(ENDING_S / ENDING_POLL_S + 2))
        self.successResultOf(done)
        self.assertEqual([event["log_level"].name for event in events], ["error"])

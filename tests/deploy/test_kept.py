"""What is noted of a game server, and who is taken for it afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import kept as keeping
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.hunts import Kind, Launch
from svcserver.deploy.kept import Kept, KeptServers
from svcserver.kernel.processes import boot_id, started_at

MARK = "SVC_DEPLOY_SERVER=127.0.0.1:61001"
HUNT = Launch(Kind.HUNT, "/Game/Maps/x", hunt_id="H", players=("UID-a", "UID-b"), match_id="m")


class KeptTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.kept = KeptServers(self.folder / "state")
        self.patch(keeping, "started_at", lambda pid, processes=None: 100 + pid)

    def process(self, pid: int, start: int, mark: str = MARK, state: str = "S") -> None:
        """A process as the kernel shows it."""
        folder = self.folder / "proc" / str(pid)
        folder.mkdir(parents=True)
        fields = " ".join([state, *["0"] * 18, str(start), "0"])
        (folder / "stat").write_text(f"{pid} (a ) b) {fields}")
        (folder / "environ").write_bytes(b"A=1\0" + mark.encode() + b"\0")

    def test_it_comes_back_as_it_was_and_only_we_may_read_it(self) -> None:
        server = GameServer("id-1", 8775, HUNT, 77, 1000.5, "hash")
        self.kept.keep(server)
        self.assertEqual(self.kept.all(), [Kept(server, 177, boot_id())])
        [file] = (self.folder / "state").iterdir()
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.kept.forget("id-1")
        self.assertEqual(self.kept.all(), [])

    def test_a_torn_or_strange_note_is_dropped_with_a_line(self) -> None:
        self.kept.keep(GameServer("id-1", 8775, HUNT, 77, 1000.5))
        [file] = (self.folder / "state").iterdir()
        whole = file.read_text()
        for text in (whole[:40], "", "[]", whole.replace('"form":1', '"form":2'), "{}"):
            file.write_text(text)
            with capturedLogs() as events:
                self.assertEqual(self.kept.all(), [])
            self.assertEqual([one["log_level"].name for one in events], ["warn"])
            self.assertFalse(file.exists())

    def test_what_a_crash_left_half_written_is_removed(self) -> None:
        self.kept.keep(GameServer("id-1", 8775, HUNT, 77, 1000.5))
        (self.folder / "state" / "id-2.new").write_text('{"form":1')
        self.assertEqual(len(self.kept.all()), 1)
        self.assertEqual([one.suffix for one in (self.folder / "state").iterdir()], [".json"])

    def test_only_the_very_process_counts(self) -> None:
        self.patch(keeping, "started_at", started_at)
        self.process(77, 500)
        self.process(78, 501)
        self.process(79, 500, "SVC_DEPLOY_SERVER=127.0.0.1:6")
        self.process(80, 500, state="Z")
        found = [
            Kept(GameServer("i", 1, HUNT, pid, 0.0), 500).runs(MARK, self.folder / "proc")
            for pid in (77, 78, 79, 80, 81)
        ]
        self.assertEqual(found, [True, False, False, False, False])

    def test_of_this_boot_the_same_tick_is_enough(self) -> None:
        self.patch(keeping, "started_at", started_at)
        self.process(77, 500, mark="")
        file = self.folder / "proc" / "sys/kernel/random/boot_id"
        file.parent.mkdir(parents=True)
        file.write_text("this\n")
        server = GameServer("i", 1, HUNT, 77, 0.0)
        found = [
            Kept(server, started, boot).runs(MARK, self.folder / "proc")
            for started, boot in ((500, "this"), (501, "this"), (500, "that"), (500, ""))
        ]
        self.assertEqual(found, [True, False, False, False])

    def test_a_server_whose_port_is_no_more_ours_is_not_taken(self) -> None:
        fleet = Fleet(8770, 8777)
        city = Launch(Kind.CITY, "/Game/x")
        self.assertTrue(fleet.adopt(GameServer("a", 8777, city, 1, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("b", 8777, city, 2, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("c", 9000, HUNT, 3, 0.0)))
        self.assertTrue(fleet.adopt(GameServer("d", 8772, HUNT, 4, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("e", 8772, HUNT, 5, 0.0)))

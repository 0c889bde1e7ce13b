"""Records of game servers, and the processes they are matched with."""

from __future__ import annotations

import tempfile
from pathlib import Path

from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy import saved_servers
from svcserver.deploy.fleet import Fleet, GameServer
from svcserver.deploy.hunts import Kind, Launch
from svcserver.deploy.saved_servers import SavedServer, SavedServers
from svcserver.kernel.processes import boot_id, started_at

MARK = "SVC_DEPLOY_SERVER=127.0.0.1:61001"
HUNT = Launch(Kind.HUNT, "/Game/Maps/x", hunt_id="H", players=("UID-a", "UID-b"), match_id="m")


class SavedServersTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.saved = SavedServers(self.folder / "state")
        self.patch(saved_servers, "started_at", lambda pid, processes=None: 100 + pid)

    def process(self, pid: int, start: int, mark: str = MARK, state: str = "S") -> None:
        """A process as the kernel shows it."""
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
                MARK, self.folder / "proc"
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
            SavedServer(server, started, boot).is_running(MARK, self.folder / "proc")
            for started, boot in ((500, "this"), (501, "this"), (500, "that"), (500, ""))
        ]
        self.assertEqual(running, [True, False, False, False])

    def test_server_is_not_adopted_if_its_port_does_not_fit(self) -> None:
        fleet = Fleet(8770, 8777)
        city = Launch(Kind.CITY, "/Game/x")
        self.assertTrue(fleet.adopt(GameServer("a", 8777, city, 1, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("b", 8777, city, 2, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("c", 9000, HUNT, 3, 0.0)))
        self.assertTrue(fleet.adopt(GameServer("d", 8772, HUNT, 4, 0.0)))
        self.assertFalse(fleet.adopt(GameServer("e", 8772, HUNT, 5, 0.0)))

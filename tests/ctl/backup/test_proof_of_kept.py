"""The drill verifies the stored backup file itself, even if only the owner can decrypt it."""

from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyrage

from svcserver.ctl.backup import proving
from svcserver.ctl.backup.archive import unpack
from svcserver.ctl.backup.sealing import BackupLock
from tests.ctl.backup.test_command import BackupCase
from tests.ctl.command import Ran
from tests.support.proves import proves

CLOSE = BackupLock.close


def rotten(lock: BackupLock, source: Path, target: Path) -> None:
    """Encrypt the file, then flip one bit of the result."""
    CLOSE(lock, source, target)
    data = bytearray(target.read_bytes())
    data[-5] ^= 1
    target.write_bytes(data)


class ProofOfTheKeptTests(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        self.owner = pyrage.x25519.Identity.generate()  # the private key is not on the host
        self.stack_env(f"BACKUP_RECIPIENTS={self.owner.to_public()}")

    def proven(self) -> Ran:
        """Make and verify a backup; the drill starts no host and lets no players play."""
        host = contextmanager(lambda *_: iter([mock.Mock()]))
        with (
            mock.patch.object(proving, "_host", host),
            mock.patch.object(proving, "_evening", lambda host: None),
            mock.patch.object(proving, "_enough_memory", lambda: None),
        ):
            return self.ctl("backup", "now", "--prove", "--json")

    @proves("svcctl backup: a damaged one is noticed")
    def test_a_backup_damaged_during_its_encryption_is_not_proven(self) -> None:
        with mock.patch.object(BackupLock, "close", rotten):
            ran = self.proven()
        self.assertIn("damaged", ran.err)
        [backup] = self.ctl("backup", "list", "--json").data["backups"]
        self.assertIn("damaged", backup["fault"])
        self.assertIsNone(backup["proven"])

    @proves("svcctl backup: encrypted with age or a passphrase")
    def test_a_backup_only_the_owner_opens_is_proven_when_made(self) -> None:
        ran = self.proven()
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIsNotNone(ran.data["proven"])
        self.assertIn("private key", self.ctl("backup", "prove").line)
        key, clear = self.folder / "owners", self.folder / "clear"
        key.write_text(f"{self.owner}\n")
        BackupLock(identity=key).open(Path(ran.data["file"]), clear)
        self.assertEqual(unpack(clear, self.folder / "parts").kind, "sqlite")
        self.assertEqual([*Path(ran.data["file"]).parent.glob(".making-*")], [])

    def test_the_repr_of_a_proving_lock_shows_no_key(self) -> None:
        self.assertNotIn("Identity", repr(BackupLock([str(self.owner.to_public())]).proving()))

"""The backup archive: all damage is detected, and nothing is written outside its folder."""

import io
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pyrage
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import Contents, DamagedBackup, DatabaseCounts
from svcserver.ctl.backup.sealing import BackupLock, CannotSeal, identities, is_closed
from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from tests.support import cheap_age
from tests.support.proves import proves

PARTS: dict[str, Path | bytes] = {"database": b"rows" * 500, "files/metagame.env": b"PORT=1\n"}
CONTENTS = Contents(
    "0.1.0",
    1.5,
    "sqlite",
    "/host",
    "/host",
    False,
    DatabaseCounts({"accounts": 3}, "ab"),
    {name: archive.digest_of(part) for name, part in PARTS.items()},
    [],
)

CHEAP = (  # encrypted with "correct horse" and the format's lowest work factor
    b"age-encryption.org/v1\n-> scrypt c2l4dGVlbiBvY3RldHMhIQ 4\n"
    b"ns+kBh2fvTbjEzEkz1dJVUAQENUFvVgRlCrsbucLyVk\n"
    b"--- aF0+z42OgqIulDPKrgQykQZDtKSbUsldqV/XcQcouac\n"
    b"a nonce of 16 B.\x0f\xa0{\x8fE8 \xb7\xc2\xdc\xed;\xc7\xcb\x89\x16\xdb/\x04\xac\xb4A"
)


class ArchiveCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))
        self.file = self.folder / "one.tar.gz"
        archive.pack(self.file, CONTENTS, PARTS)

    def fresh(self) -> Path:
        return Path(self.enterContext(TemporaryDirectory(dir=self.folder))) / "into"


class ArchiveTests(ArchiveCase):
    @proves("svcctl backup: a damaged one is noticed")
    def test_an_unpacked_archive_has_the_packed_contents(self) -> None:
        into = self.fresh()
        self.assertEqual(archive.unpack(self.file, into), CONTENTS)
        self.assertEqual((into / "database").read_bytes(), b"rows" * 500)
        self.assertEqual((into / "files/metagame.env").stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)

    @proves("svcctl backup: a damaged one is noticed")
    def test_a_shortened_or_changed_file_is_damaged(self) -> None:
        whole = self.file.read_bytes()

        @settings(max_examples=150, deadline=None)
        @given(st.integers(10, len(whole) - 1), st.integers(1, 255), st.booleans())
        def damaged(at: int, change: int, cut: bool) -> None:
            data = whole[:at] if cut else whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :]
            self.file.write_bytes(data)
            try:
                read = archive.unpack(self.file, self.fresh())
            except DamagedBackup:
                return
            # the last bytes are padding that no entry needs, so the contents are correct
            self.assertEqual(read, CONTENTS)

        damaged()

    def test_archive_entries_outside_or_not_listed_are_refused(self) -> None:
        for name in ("../out", "/etc/out", "files/../../out", "files/other"):
            with tarfile.open(self.file, "w:gz") as archived:
                listing = json.dump({"form": 1, **as_dict(), "files": {"../out": "x"}})
                for entry, data in ((archive.CONTENTS, listing), (name, b"out")):
                    info = tarfile.TarInfo(entry)
                    info.size = len(data)
                    archived.addfile(info, io.BytesIO(data))
            into = self.fresh()
            self.assertRaises(DamagedBackup, archive.unpack, self.file, into)
            self.assertFalse((into.parent / "out").exists())

    def test_a_file_that_is_no_backup_is_refused_with_a_reason(self) -> None:
        for data in (b"", b"plain text", b"\x1f\x8b\x08\x00broken"):
            self.file.write_bytes(data)
            why = self.assertRaises(DamagedBackup, archive.unpack, self.file, self.fresh())
            self.assertIn("the backup", str(why))


def as_dict() -> dict[str, object]:
    return {
        "version": "1",
        "made": 1.0,
        "kind": "sqlite",
        "folder": "/host",
        "data": "/host",
        "secrets": False,
        "counted": {"tables": {}, "characters": ""},
        "left_out": [],
    }


class SealingTests(ArchiveCase):
    def test_file_of_a_much_faster_machine_is_not_called_damaged(self) -> None:
        head = b"age-encryption.org/v1\n-> scrypt G3bu1KqPFh+hnoFFGZtpmQ 30\n"
        rest = b"1pAim3LcQfCQ6uWDyMvffcgAsUZbICDl4BchDQOMEXg\n--- " + b"A" * 43 + b"\n" + bytes(99)
        closed = self.folder / "closed"
        closed.write_bytes(head + rest)
        with self.assertRaisesRegex(CannotSeal, "too slow or too busy"):
            BackupLock(passphrase=Secret("correct horse")).open(closed, self.folder / "clear")

    def test_a_header_without_end_and_a_huge_file_are_not_read(self) -> None:
        closed, clear = self.folder / "closed", self.folder / "clear"
        lock = BackupLock(passphrase=Secret("correct horse"))
        for head, why in (
            (CHEAP[:60], "has no end"),
            (CHEAP, "too large for a backup with a passphrase"),
        ):
            with closed.open("wb") as file:
                file.write(head)
                file.truncate(3 << 30)  # a sparse file, which needs no space on the disk
            refused = self.assertRaises(CannotSeal, lock.open, closed, clear)
            self.assertIn(why, str(refused))

    @proves("svcctl backup: encrypted with age or a passphrase")
    def test_a_passphrase_decrypts_the_archive_it_encrypted(self) -> None:
        # tests/live/test_backup.py uses the library's slow encryption
        self.patch(pyrage.passphrase, "encrypt", cheap_age.encrypt)
        closed, clear = self.folder / "closed", self.folder / "clear"
        lock = BackupLock(passphrase=Secret("correct horse"))
        lock.close(self.file, closed)
        self.assertTrue(is_closed(closed))
        self.assertFalse(is_closed(self.file))
        lock.open(closed, clear)
        self.assertEqual(clear.read_bytes(), self.file.read_bytes())
        self.assertNotIn("correct", repr(lock))

    @proves("svcctl backup: encrypted with age or a passphrase")
    def test_a_wrong_or_missing_passphrase_opens_no_backup(self) -> None:
        closed, clear = self.folder / "closed", self.folder / "clear"
        closed.write_bytes(CHEAP)
        for lock in (
            BackupLock(passphrase=Secret("wrong")),
            BackupLock(),
            BackupLock(identity=self.folder / "no"),
        ):
            self.assertRaises(CannotSeal, lock.open, closed, clear)
            self.assertFalse(clear.exists())
        BackupLock(passphrase=Secret("correct horse")).open(closed, clear)
        self.assertEqual(clear.read_bytes(), b"a host")

    @proves("svcctl backup: encrypted with age or a passphrase")
    def test_an_age_key_opens_a_backup_unless_a_byte_is_flipped(self) -> None:
        own = pyrage.x25519.Identity.generate()
        key = self.folder / "backup.key"
        key.write_text(f"# created by age-keygen\n{own}\n")
        self.assertEqual(len(identities(key)), 1)
        closed, clear = self.folder / "closed", self.folder / "clear"
        lock = BackupLock([str(own.to_public())], None, key)
        lock.close(self.file, closed)
        lock.open(closed, clear)
        self.assertEqual(clear.read_bytes(), self.file.read_bytes())
        data = bytearray(closed.read_bytes())
        data[-5] ^= 1
        closed.write_bytes(data)
        why = self.assertRaises(CannotSeal, lock.open, closed, clear)
        self.assertIn("damaged", str(why))

    def test_an_invalid_recipient_key_names_backup_recipients(self) -> None:
        closed = self.folder / "closed"
        why = self.assertRaises(CannotSeal, BackupLock(["age1xyz"]).close, self.file, closed)
        self.assertIn("BACKUP_RECIPIENTS", str(why))

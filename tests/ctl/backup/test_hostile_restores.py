"""Intact archives with hostile settings or a hostile database."""

import shutil
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from attrs import evolve

from svcserver.ctl.backup import archive
from tests.ctl.backup.test_command import BackupCase
from tests.ctl.command import nowhere, svcctl
from tests.support.proves import proves

ENDLESS = (
    "CREATE VIEW characters AS WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id FROM n) "
    "SELECT id, id AS update_version, id AS save_id FROM n"
)


def put(name: str, text: bytes, parts: Path) -> None:
    with (parts / archive.FILES / name).open("ab") as file:
        file.write(b"\n" + text + b"\n")


def run(statement: str, parts: Path) -> None:
    with closing(sqlite3.connect(parts / archive.DATABASE)) as database, database:
        database.execute("ALTER TABLE characters RENAME TO other")
        database.execute(statement)


def no_metagame(parts: Path) -> None:
    (parts / archive.FILES / "metagame.env").unlink()


class HostileRestoreTests(BackupCase):
    # slow: a host is restored again and again
    @proves("svcctl backup: a damaged one is noticed")
    def test_a_restore_of_odd_contents_ends_in_one_line(self) -> None:
        made = Path(self.made().data["file"])
        parts = nowhere(self)
        contents = archive.unpack(made, parts)
        for spoil in (
            partial(put, "metagame.env", b"DATABASE_URL=sqlite://host/x"),
            partial(put, "metagame.env", b"DATABASE_URL=nonsense"),
            partial(put, "metagame.env", b"DATABASE_URL=sqlite:///%00"),
            partial(put, "metagame.env", b"DATABASE_URL=postgresql://[::1/x"),
            partial(put, "metagame.env", b"caf\xe9=1"),
            partial(put, "content.env", b"CONTENT_GAME_DIR=\0"),
            partial(put, "relay.env", b"SVC_RELAY_HOST=a..b"),
            partial(run, ENDLESS),
            partial(run, "CREATE TABLE characters (x)"),
            no_metagame,
        ):
            odd, into = nowhere(self), nowhere(self)
            shutil.copytree(parts, odd)
            spoil(odd)
            names = [name for name in contents.files if (odd / name).exists()]
            packed: dict[str, Path | bytes] = {name: odd / name for name in names}
            digests = {name: archive.digest_of(part) for name, part in packed.items()}
            file = odd.with_name("odd.tar.gz")
            archive.pack(file, evolve(contents, files=digests), packed)
            ran = svcctl("backup", "restore", file, "--into", into)
            self.assertEqual((ran.status, ran.out), (1, ""), spoil)
            self.assertTrue(ran.line.startswith("svcctl: "), ran.err)
            self.assertFalse(into.exists() and list(into.iterdir()), spoil)

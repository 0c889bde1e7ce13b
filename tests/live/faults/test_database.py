"""A database that stops, fills up, is locked or gets damaged while players use the metagame.

Real processes are needed because the tests kill the database server and damage files that a
service uses.
"""

from __future__ import annotations

import os
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import orjson
import pytest
from attrs import define, field

from tests.support.postgres import Instance
from tests.support.processes import (
    Service,
    bearer,
    eventually,
    free_port,
    metagame,
    metagame_environ,
    register,
)

pytestmark = pytest.mark.live

ENDLESS = resource.RLIM_INFINITY


@define
class Saver:
    """A player who saves repeatedly and records which saves were acknowledged."""

    service: Service
    player: dict[str, str]
    size: int = 2_000
    character: str = ""
    version: int = 0
    statuses: list[int] = field(factory=list)
    bodies: set[bytes] = field(factory=set)
    done: Event = field(factory=Event)

    def begin(self) -> Saver:
        """Read the character, which creates it."""
        _, body = self.service.ask("GET", "/character", headers=bearer(self.player))
        self.character = orjson.loads(body)[0]["id"]
        return self

    def save(self) -> int:
        """Save the next version once and return the status."""
        data = orjson.dumps({"n": str(self.version + 1), "pad": "x" * self.size}).decode()
        sent = {"characterId": self.character, "data": data, "updateVersion": self.version + 1}
        status, body = self.service.ask("POST", "/character", sent, bearer(self.player))
        self.statuses.append(status)
        if status == 200:
            self.version += 1
        else:
            self.bodies.add(body)
            # the last save may have been in flight
            self.version = max(self.version, self.held() or 0)
        return status

    def held(self) -> int | None:
        """Return the version that the server holds; None if the server cannot answer."""
        status, body = self.service.ask("GET", "/character", headers=bearer(self.player))
        return int(orjson.loads(body)[0]["updateVersion"]) if status == 200 else None

    def run(self) -> None:
        """Save repeatedly until the stop event is set."""
        while not self.done.is_set():
            self.save()


@contextmanager
def saving(savers: list[Saver]) -> Iterator[None]:
    """Run all savers concurrently."""
    threads = [Thread(target=saver.run) for saver in savers]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for saver in savers:
            saver.done.set()
        for thread in threads:
            thread.join(60)


def savers_of(service: Service, count: int, **more: Any) -> list[Saver]:
    return [Saver(service, register(service, f"saver_{n}"), **more).begin() for n in range(count)]


def acknowledged(savers: list[Saver], more: int = 5) -> None:
    """Wait until each saver has received ``more`` further replies with status 200."""
    wanted = [saver.statuses.count(200) + more for saver in savers]
    eventually(
        lambda: all(saver.statuses.count(200) >= n for saver, n in zip(savers, wanted, strict=True))
    )


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_postgresql_restart_loses_no_acknowledged_save(tmp_path: Path, mode: str) -> None:
    server = Instance.make()
    server.start()
    try:
        with metagame(tmp_path, DATABASE_URL=server.database()) as service:
            savers = savers_of(service, 4)
            with saving(savers):
                acknowledged(savers)
                server.stop(mode)
                eventually(lambda: all(set(saver.statuses) - {200} for saver in savers))
                # a request that needs no database
                assert service.ask("GET", "/svc-status")[0] == 200
                server.start()
                acknowledged(savers)
            for saver in savers:
                # 409 if a save in flight was stored although its request failed
                assert {200, 503} <= set(saver.statuses) <= {200, 409, 503}
                assert saver.held() == saver.version
            assert "svc@" not in service.log
    finally:
        server.end()


@contextmanager
def full_at(service: Service, size: int) -> Iterator[None]:
    """Limit the process's files to ``size`` bytes, which SQLite sees as a full disk."""
    assert service.process is not None
    pid = service.process.pid
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, ENDLESS))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (ENDLESS, ENDLESS))


def test_a_full_disk_refuses_saves_until_there_is_room(
    tmp_path: Path,
) -> None:
    with metagame(tmp_path) as service:
        savers = savers_of(service, 3, size=50_000)
        for saver in savers:
            assert [saver.save() for _ in range(4)] == [200] * 4
        with full_at(service, os.path.getsize(tmp_path / "svc.db-wal")):
            # old data can be read, and new data is refused
            eventually(lambda: all(saver.save() != 200 for saver in savers))
            assert [saver.held() for saver in savers] == [saver.version for saver in savers]
            assert {saver.save() for saver in savers} == {503}
        assert [saver.save() for saver in savers] == [200] * 3
        eventually(lambda: "the database does not work" in service.log)
        assert service.log.count("the database does not work") == 1, service.log
        assert "Traceback" not in service.log
    with metagame(tmp_path) as again:
        for saver in savers:
            saver.service = again
            assert saver.held() == saver.version


def test_a_foreign_lock_delays_only_saves(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:
        [entry] = savers_of(service, 1)
        with closing(sqlite3.connect(tmp_path / "svc.db", isolation_level=None)) as stranger:
            stranger.execute("BEGIN IMMEDIATE")
            waiting = Thread(target=entry.save)
            waiting.start()
            assert service.ask("GET", "/svc-status")[0] == 200
            assert entry.held() == 0
            assert entry.statuses == []
            stranger.execute("ROLLBACK")
            waiting.join(30)
            assert entry.statuses == [200]  # the save waited, and then succeeded
            stranger.execute("BEGIN IMMEDIATE")
            assert entry.save() == 503  # the save fails after its time limit
        assert entry.save() == 200
        eventually(lambda: "another program has locked it" in service.log)


def refused(folder: Path, **environ: str) -> str:
    """Start a metagame that must fail, and return its one-line error message."""
    port = free_port()
    service = Service("svc-metagame", folder, metagame_environ(folder, port, **environ), port)
    try:
        assert service.launch().wait(30) not in (0, None)
    finally:
        service.stop()
    [line] = service.log.strip().splitlines()[-1:]
    assert "Traceback" not in service.log
    return line


def test_a_read_only_database_ends_the_start_with_one_line(tmp_path: Path) -> None:
    with metagame(tmp_path):
        pass
    line = refused(tmp_path, DATABASE_URL=f"sqlite:///file:{tmp_path}/svc.db?mode=ro&uri=true")
    assert "DATABASE_URL" in line and "read-only" in line


def test_a_damaged_page_ends_the_start_and_names_the_cure(tmp_path: Path) -> None:
    with metagame(tmp_path) as service:
        for entry in savers_of(service, 3, size=50_000):
            entry.save()
    file = tmp_path / "svc.db"
    pages = file.stat().st_size // 16_384
    with file.open("r+b") as disk:
        for page in range(2, pages):  # headers of pages that hold no file header
            disk.seek(page * 16_384)
            disk.write(os.urandom(512))
    line = refused(tmp_path)
    assert "DATABASE_URL" in line and "damaged" in line and "svcctl db restore" in line


def test_a_file_that_is_no_database_ends_the_start_and_names_the_cure(tmp_path: Path) -> None:
    (tmp_path / "svc.db").write_bytes(os.urandom(100_000))
    line = refused(tmp_path)
    assert "DATABASE_URL" in line and "svcctl db restore" in line

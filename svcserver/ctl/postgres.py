"""PostgreSQL's client programs, for backups: dump a database, and put a dump in its place."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, NoReturn

from sqlalchemy import inspect
from sqlalchemy.engine import URL

from svcserver.ctl.output import Failed, fail
from svcserver.db.engine import SQLAlchemyError, describe, make_engine

_LOST = 2  # psql's status when its connection has ended
DUMP_S = 3600  # how long each program may take
# lines of pg_restore --list
_OF_A_HOST = re.compile(r"(?m)^\d+; .* TABLE DATA \S+ accounts ")
_LARGE_OBJECTS = re.compile(r"(?m)^\d+; .* BLOBS? ")
_AS_IT_WAS = "the database is as it was"
_UNSURE = "it may have been restored: look at it with svcctl db check"

# All that our role has in the schema. pg_restore --clean drops only what its dump names, so what
# a migration added later would stay, and the next upgrade fail on it. What is of an extension
# stays. The list is made before anything is dropped: CASCADE takes some of it along, so does a
# table its own sequences. While it waits for who reads a table, all others wait for it.
_DROP = r"""
SET client_min_messages = warning;
SET lock_timeout = '30s';
DO $drop$
DECLARE every text;
BEGIN
  SELECT string_agg(one, ';' ORDER BY turn) INTO every FROM (
    SELECT CASE relkind WHEN 'S' THEN 2 ELSE 1 END AS turn, format(
      'DROP %s IF EXISTS %I.%I CASCADE',
      CASE relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
        WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
      current_schema(), relname
    ) AS one
    FROM pg_class
    WHERE relkind IN ('r', 'p', 'v', 'm', 'S') AND pg_has_role(relowner, 'USAGE')
      AND relnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_class.oid AND deptype = 'e')
    UNION ALL
    SELECT 3, format(
      'DROP ROUTINE IF EXISTS %I.%I(%s) CASCADE',
      current_schema(), proname, pg_get_function_identity_arguments(oid)
    )
    FROM pg_proc
    WHERE pg_has_role(proowner, 'USAGE') AND pronamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_proc.oid AND deptype = 'e')
    UNION ALL
    SELECT 4, format('DROP TYPE IF EXISTS %I.%I CASCADE', current_schema(), typname)
    FROM pg_type
    WHERE typtype IN ('e', 'd')
      AND pg_has_role(typowner, 'USAGE') AND typnamespace = current_schema()::regnamespace
      AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = pg_type.oid AND deptype = 'e')
  ) AS ours;
  IF every IS NOT NULL THEN
    EXECUTE every;
  END IF;
END
$drop$;
"""


def postgres(program: str, url: URL, *arguments: str) -> None:
    """Run one of PostgreSQL's client programs; the password is passed in the environment."""
    place, environ = _connection(url)
    _run([_found(program), place, *arguments], environ)


def dump(url: URL, target: Path) -> None:
    """Write all of the database into ``target``, mode 0600, whole or not at all."""
    if target.exists():
        fail(f"{target} exists already; wait a second and try again")
    fresh = target.with_name(target.name + ".new")
    try:
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as why:
        fail(f"{fresh} cannot be written: {why.strerror}")
    try:
        postgres("pg_dump", url, "--format=custom", f"--file={fresh}")
        fresh.rename(target)
    finally:
        fresh.unlink(missing_ok=True)


def put_back(source: Path, url: URL, beside: Path) -> Path | None:
    """Put a dump of a host in the place of the database, all or nothing.

    Returns the file in the folder ``beside`` in which what was there is kept; None where nothing
    was. Any failure leaves the database as it was.
    """
    try:
        _is_of_a_host(source)
        kept = _kept(url, beside)
    except Failed as why:
        fail(f"{why.message}; the database was not touched")
    _replace(source, url)
    return kept


def _is_of_a_host(source: Path) -> None:
    listed = _run([_found("pg_restore"), "--list", str(source)], dict(os.environ))
    if not _OF_A_HOST.search(listed):
        fail(f"{source} is no backup of a host")
    if _LARGE_OBJECTS.search(listed):  # pg_restore would commit in the middle
        fail(f"{source} holds large objects, which no host has")


def _kept(url: URL, beside: Path) -> Path | None:
    """The dump of what is there, made now; None of an empty database."""
    if not _is_used(url):
        return None
    kept = beside / f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}.dump"
    dump(url, kept)
    return kept


def _is_used(url: URL) -> bool:
    """Whether the database holds any table."""
    engine = make_engine(url)
    try:
        return bool(inspect(engine).get_table_names())
    except SQLAlchemyError as why:
        fail(f"the database cannot be used: {describe(why)}")
    finally:
        engine.dispose()


def _replace(source: Path, url: URL) -> None:
    """Drop what is ours and restore the dump, in one transaction.

    pg_restore has no place for statements of ours, so psql carries out what it prints. Only its
    end with success brings the COMMIT: of a damaged dump nothing is kept.
    """
    place, environ = _connection(url)
    carry_out = [_found("psql"), place, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"]
    read = [_found("pg_restore"), "--clean", "--if-exists", "--no-owner", "--file=-", str(source)]
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as read_said:
        with subprocess.Popen(
            carry_out, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said
        ) as psql:
            assert psql.stdin is not None  # noqa: S101 - it is a pipe
            so_far = _AS_IT_WAS
            try:
                status = _fed(psql.stdin, read, read_said)
                so_far = _AS_IT_WAS if status else _UNSURE
                done = psql.wait(DUMP_S)
            except subprocess.TimeoutExpired:
                fail(f"the restore took more than {DUMP_S} s; {so_far}")
            finally:
                psql.kill()
        if done:
            _failed("psql", said, done, so_far if done == _LOST else _AS_IT_WAS)
        if status:
            _failed("pg_restore", read_said, status, _AS_IT_WAS)


def _fed(stdin: IO[bytes], read: list[str], said: IO[bytes]) -> int:
    """Give psql the whole transaction, the COMMIT only after a dump that was read to its end.

    Returns pg_restore's status. A psql that has ended reads no more; its own status says why.
    """
    with suppress(BrokenPipeError), stdin:
        stdin.write(f"BEGIN;\n{_DROP}".encode())
        stdin.flush()
        done = subprocess.run(read, stdout=stdin, stderr=said, timeout=DUMP_S, check=False)
        if done.returncode:
            return done.returncode
        stdin.write(b"COMMIT;\n")
    return 0


def _failed(program: str, said: IO[bytes], status: int, so_far: str) -> NoReturn:
    said.seek(0)
    line = _fault(said.read().decode(errors="replace"), status)
    fail(f"{program}: {line}; {so_far}")


def _connection(url: URL) -> tuple[str, dict[str, str]]:
    """How a client program finds the database, and its environment, which has the password."""
    place = url.translate_connect_args(username="username")
    place.pop("password", None)  # with ``set`` it would stay, and hidden be passed as three stars
    plain = URL.create("postgresql", **place, query=url.query).render_as_string()
    environ = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    return f"--dbname={plain}", environ


def _found(program: str) -> str:
    found = shutil.which(program)
    if found is None:
        fail(f"{program} is missing; install PostgreSQL's client programs (postgresql-client)")
    return found


def _run(command: list[str], environ: dict[str, str]) -> str:
    """What a client program prints; fails with one line of its complaints."""
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=DUMP_S, check=False
        )
    except subprocess.TimeoutExpired:
        fail(f"{program} took more than {DUMP_S} s")
    if done.returncode:
        fail(f"{program}: {_fault(done.stderr, done.returncode)}")
    return done.stdout


def _fault(said: str, status: int) -> str:
    """The line that says what was wrong: hints and the rows it was about stand below it."""
    lines = said.strip().splitlines() or [f"status {status}"]
    return next((line for line in lines if "error:" in line.lower()), lines[-1])

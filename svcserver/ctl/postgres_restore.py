"""Replaces a PostgreSQL database with a dump, completely or not at all."""

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

from sqlalchemy import inspect
from sqlalchemy.engine import URL

from svcserver.ctl.output import Failed, HalfDone, fail
from svcserver.ctl.postgres import DUMP_S, connection, dump, fault, find_program, needs, run
from svcserver.ctl.stopping import STOPPED
from svcserver.db.engine import SQLAlchemyError, describe, make_engine

PROGRAMS = ("pg_dump", "pg_restore", "psql")
TRIES = 3  # a running metagame may cause a deadlock
_CONNECTION_ENDED = 2  # psql's status when its connection has ended
_END_S = 5.0  # time for psql to cancel its statement
# lines of pg_restore --list
_OF_A_HOST = re.compile(r"(?m)^\d+; .* TABLE DATA \S+ accounts ")
_LARGE_OBJECTS = re.compile(r"(?m)^\d+; .* BLOBS? ")
# objects that only a superuser can create: they are not changed
_OF_THE_DATABASE = re.compile(r"\d+; \d+ \d+ (COMMENT - )?(EXTENSION|PUBLICATION) ")
# the restoring role owns all tables; grants may name roles that do not exist here
_OURS = ("--no-owner", "--no-privileges")
_DEADLOCK = re.compile(r":  40P01: ")
_BUSY = re.compile(r":  (?:40P01|55P03): ")
_AS_IT_WAS = "the database was not changed"
_UNSURE = "the database may have been restored: check it with svcctl db check"
_MAYBE = "failed: it may have been done"
_BEGIN = "\\o /dev/null\nBEGIN;\n"  # drops psql's output, except ``_FED``
_FED = b"fed\n"

# Drops all objects that our role owns in the schema. pg_restore --clean drops only the objects in
# its dump: an object that a later migration added would stay, and break the next upgrade. Objects
# of extensions stay. The list is made before anything is dropped, because CASCADE drops some
# objects along with others, and a table drops its own sequences. While the statement waits for
# readers of a table, all other users of the table wait, too.
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
      AND NOT EXISTS (
        SELECT FROM pg_depend
        WHERE classid = 'pg_class'::regclass AND objid = pg_class.oid AND deptype = 'e'
      )
    UNION ALL
    SELECT 3, format(
      'DROP ROUTINE IF EXISTS %I.%I(%s) CASCADE',
      current_schema(), proname, pg_get_function_identity_arguments(oid)
    )
    FROM pg_proc
    WHERE pg_has_role(proowner, 'USAGE') AND pronamespace = current_schema()::regnamespace
      AND NOT EXISTS (
        SELECT FROM pg_depend
        WHERE classid = 'pg_proc'::regclass AND objid = pg_proc.oid AND deptype = 'e'
      )
    UNION ALL
    SELECT 4, format('DROP TYPE IF EXISTS %I.%I CASCADE', current_schema(), typname)
    FROM pg_type
    WHERE typtype IN ('e', 'd')
      AND pg_has_role(typowner, 'USAGE') AND typnamespace = current_schema()::regnamespace
      AND NOT EXISTS (
        SELECT FROM pg_depend
        WHERE classid = 'pg_type'::regclass AND objid = pg_type.oid AND deptype = 'e'
      )
  ) AS ours;
  IF every IS NOT NULL THEN
    EXECUTE every;
  END IF;
END
$drop$;
"""


class _Deadlock(Failed):
    """The error when PostgreSQL aborts our transaction because of a deadlock.

    Nothing was changed.
    """


def restore_into(url: URL, source: Path) -> None:
    """Restore a dump into an empty database; raises Failed."""
    needs("pg_restore")
    place, environ = connection(url)
    with _wanted(_listed(source)) as wanted:
        run(
            [find_program("pg_restore"), place, *_OURS, wanted, "--exit-on-error", str(source)],
            environ,
        )


def put_back(source: Path, url: URL, beside: Path, say: Callable[[str], None]) -> Path | None:
    """Replace the database with a dump of a host, completely or not at all.

    Returns the file in ``beside`` with the previous contents, or None if the database was empty.
    Raises HalfDone if it is unknown whether the dump was restored. Any other Failed means that the
    database is unchanged. ``say`` gets a message before each retry.
    """
    try:
        needs(*PROGRAMS)
        listed = _of_a_host(source)
        previous = _dump_current(url, beside)
    except Failed as why:
        fail(f"{why.message}; the database was not changed")
    except STOPPED:
        fail("the restore was stopped; the database was not changed")
    try:
        with _wanted(listed) as wanted:
            _tried(source, url, wanted, say)
    except HalfDone as why:
        note = f"; the previous database is in {previous}" if previous is not None else ""
        raise HalfDone(why.message + note, why.outcome) from None
    return previous


def _tried(source: Path, url: URL, wanted: str, say: Callable[[str], None]) -> None:
    for again in range(2, TRIES + 1):
        try:
            return _replace(source, url, wanted)
        except _Deadlock as why:
            say(f"{why.message}; trying again ({again} of {TRIES})")
    return _replace(source, url, wanted)


def _listed(source: Path) -> str:
    return run([find_program("pg_restore"), "--list", str(source)], dict(os.environ))


def _of_a_host(source: Path) -> str:
    """Return the list of a dump's entries; raises Failed if the dump is not a host's dump."""
    listed = _listed(source)
    if not _OF_A_HOST.search(listed):
        fail(f"{source} is not a backup of a host")
    if _LARGE_OBJECTS.search(listed):  # pg_restore would commit before the end
        fail(
            f"{source} is not a backup of a host, because the file contains PostgreSQL large "
            "objects"
        )
    return listed


@contextmanager
def _wanted(listed: str) -> Iterator[str]:
    """Yield the pg_restore option that leaves out extensions and publications."""
    ours = [line for line in listed.splitlines() if not _OF_THE_DATABASE.match(line)]
    with tempfile.NamedTemporaryFile("w", prefix="svc-restore-", encoding="utf-8") as file:
        file.write("\n".join([*ours, ""]))
        file.flush()
        yield f"--use-list={file.name}"


def _dump_current(url: URL, beside: Path) -> Path | None:
    """Dump the current database into a file; return the file, or None for an empty database."""
    if not _is_used(url):
        return None
    dump_file = beside / f"before-restore-{time.strftime('%Y%m%d-%H%M%S')}.dump"
    dump(url, dump_file)
    return dump_file


def _is_used(url: URL) -> bool:
    """Return whether the database contains any table."""
    engine = make_engine(url)
    try:
        return bool(inspect(engine).get_table_names())
    except SQLAlchemyError as why:
        fail(f"the database cannot be used: {describe(why)}")
    finally:
        engine.dispose()


def _replace(source: Path, url: URL, wanted: str) -> None:
    """Drop the objects of our database role and restore the dump, in one transaction.

    psql runs our own statements and the output of pg_restore. COMMIT is sent only after pg_restore
    has succeeded and psql has confirmed every statement. So a damaged dump changes nothing.
    """
    place, environ = connection(url)
    quiet = ("--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=verbose")
    read = [
        find_program("pg_restore"),
        "--clean",
        "--if-exists",
        *_OURS,
        wanted,
        "--file=-",
        str(source),
    ]
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as read_errors:
        with _psql([find_program("psql"), place, *quiet], environ, errors) as psql:
            so_far = _AS_IT_WAS
            try:
                status = _fed(psql, read, read_errors)
                if not status and _is_carried_out(psql):
                    so_far = _UNSURE
                    _write_script(psql, b"COMMIT;\n")
                _stdin(psql).close()
                done = psql.wait(DUMP_S)
            except subprocess.TimeoutExpired:
                _end(f"the restore took more than {DUMP_S} s", so_far)
            except STOPPED:
                _end("the restore was stopped", so_far)
        if done:
            _failed("psql", errors, done, so_far if done == _CONNECTION_ENDED else _AS_IT_WAS)
        if status:
            _failed("pg_restore", read_errors, status, _AS_IT_WAS)


@contextmanager
def _psql(
    command: list[str], environ: dict[str, str], errors: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run psql during the ``with`` block, and always end psql afterwards.

    An interrupt makes the server cancel the running statement and release the locks.
    """
    with subprocess.Popen(
        command,
        env=environ,
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
    ) as psql:
        try:
            yield psql
        finally:
            # a second signal ends the wait, but the outcome is still reported
            with suppress(subprocess.TimeoutExpired, *STOPPED):
                _stdin(psql).close()
                if psql.poll() is None:
                    psql.send_signal(signal.SIGINT)
                    psql.wait(_END_S)
            psql.kill()


def _stdin(psql: subprocess.Popen[bytes]) -> IO[bytes]:
    assert psql.stdin is not None  # noqa: S101 - it is a pipe
    return psql.stdin


def _write_script(psql: subprocess.Popen[bytes], script: bytes) -> None:
    """Write to psql; do nothing if psql has already ended."""
    with suppress(BrokenPipeError):
        _stdin(psql).write(script)


def _fed(psql: subprocess.Popen[bytes], read: list[str], errors: IO[bytes]) -> int:
    """Pipe pg_restore into psql, in an open transaction; return pg_restore's exit status."""
    _write_script(psql, f"{_BEGIN}{_DROP}".encode())
    done = subprocess.run(read, stdout=psql.stdin, stderr=errors, timeout=DUMP_S, check=False)
    return done.returncode


def _is_carried_out(psql: subprocess.Popen[bytes]) -> bool:
    """Wait until psql has executed all input; return False if psql has ended."""
    assert psql.stdout is not None  # noqa: S101 - it is a pipe
    _write_script(psql, rb"\echo " + _FED)
    if not select.select([psql.stdout], [], [], DUMP_S)[0]:
        raise subprocess.TimeoutExpired(psql.args, DUMP_S)
    return psql.stdout.readline() == _FED


def _failed(program: str, errors: IO[bytes], status: int, so_far: str) -> NoReturn:
    errors.seek(0)
    text = errors.read().decode(errors="replace")
    line = f"{program}: {fault(text, status)}"
    cure = "; if the metagame is running, stop it and try again" if _BUSY.search(text) else ""
    if _DEADLOCK.search(text):
        raise _Deadlock(f"{line}{cure}; {so_far}")
    _end(line + cure, so_far)


def _end(line: str, so_far: str) -> NoReturn:
    message = f"{line}; {so_far}"
    if so_far == _UNSURE:
        raise HalfDone(message, _MAYBE)
    fail(message)

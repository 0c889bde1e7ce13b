"""PostgreSQL's client programs: functions that find them, run them and dump a database."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from sqlalchemy.engine import URL

from svcserver.ctl.output import fail

_STATE = re.compile(r":  [0-9A-Z]{5}: ")  # the SQLSTATE in a message, in any language
DUMP_S = 3600  # how long each program may take


def needs(*programs: str) -> None:
    """Raise Failed if any of ``programs`` is not installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        fail(f"{what}; install PostgreSQL's client programs (postgresql-client)")


def find_program(program: str) -> str:
    """Return the path of a program; raises Failed if it is not installed."""
    needs(program)
    return shutil.which(program) or program


def dump(url: URL, target: Path) -> None:
    """Write the whole database into ``target`` with mode 0600; leave no file on failure."""
    if target.exists():
        fail(
            f"no backup was made: {target} already exists. The name of a backup file contains the "
            "time. Run this command again to get a new name."
        )
    fresh = target.with_name(target.name + ".new")
    try:
        os.close(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    except OSError as why:
        fail(f"{fresh} cannot be written: {why.strerror}")
    try:
        pg_dump(url, fresh)
        fresh.rename(target)
    finally:
        fresh.unlink(missing_ok=True)


def pg_dump(url: URL, target: Path, *arguments: str) -> None:
    """Write the whole database into ``target``; pg_dump gets the password in its environment."""
    place, environ = connection(url)
    run(
        [find_program("pg_dump"), place, "--format=custom", *arguments, f"--file={target}"], environ
    )


def connection(url: URL) -> tuple[str, dict[str, str]]:
    """Return the command-line argument for the database, and an environment with the password."""
    place = url.translate_connect_args(username="username")
    place.pop("password", None)  # ``set`` cannot remove the password, and would render it as ***
    plain = URL.create("postgresql", **place, query=url.query).render_as_string()
    environ = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    return f"--dbname={plain}", environ


def run(command: list[str], environ: dict[str, str]) -> str:
    """Run a client program and return its output.

    Raises Failed with the line in which the program names its error.
    """
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=DUMP_S, check=False
        )
    except subprocess.TimeoutExpired:
        fail(f"{program} did not end within {DUMP_S} s, and was stopped")
    if done.returncode:
        fail(f"{program}: {fault(done.stderr, done.returncode)}")
    return done.stdout


def fault(output: str, status: int) -> str:
    """Return the line of a program's output that names the error.

    Other lines may contain hints, or rows of the database.
    """
    lines = output.strip().splitlines() or [f"status {status}"]
    named = (line for line in lines if "error:" in line.lower() or _STATE.search(line))
    line = next(named, lines[-1])
    return " ".join(line.split())

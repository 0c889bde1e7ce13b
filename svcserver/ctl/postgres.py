"""PostgreSQL's client programs: look for them, run them, dump a database."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from sqlalchemy.engine import URL

from svcserver.ctl.output import fail

_STATE = re.compile(r":  [0-9A-Z]{5}: ")  # of psql's own words, whatever the server's language
DUMP_S = 3600  # how long each program may take


def needs(*programs: str) -> None:
    """Fail with one line before anything is done, where one of them is missing."""
    missing = [one for one in programs if shutil.which(one) is None]
    if missing:
        what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
        fail(f"{what}; install PostgreSQL's client programs (postgresql-client)")


def found(program: str) -> str:
    """Its path; fails with one line."""
    needs(program)
    return shutil.which(program) or program


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
        pg_dump(url, fresh)
        fresh.rename(target)
    finally:
        fresh.unlink(missing_ok=True)


def pg_dump(url: URL, target: Path, *arguments: str) -> None:
    """Write all of the database into ``target``; the password is passed in the environment."""
    place, environ = connection(url)
    run([found("pg_dump"), place, "--format=custom", *arguments, f"--file={target}"], environ)


def connection(url: URL) -> tuple[str, dict[str, str]]:
    """How a client program finds the database, and its environment, which has the password."""
    place = url.translate_connect_args(username="username")
    place.pop("password", None)  # with ``set`` it would stay, and hidden be passed as three stars
    plain = URL.create("postgresql", **place, query=url.query).render_as_string()
    environ = {**os.environ, **({"PGPASSWORD": str(url.password)} if url.password else {})}
    return f"--dbname={plain}", environ


def run(command: list[str], environ: dict[str, str]) -> str:
    """What a client program prints; fails with one line of its complaints."""
    program = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=environ, capture_output=True, text=True, timeout=DUMP_S, check=False
        )
    except subprocess.TimeoutExpired:
        fail(f"{program} took more than {DUMP_S} s")
    if done.returncode:
        fail(f"{program}: {fault(done.stderr, done.returncode)}")
    return done.stdout


def fault(said: str, status: int) -> str:
    """The line that says what was wrong: hints and the rows it was about stand below it."""
    lines = said.strip().splitlines() or [f"status {status}"]
    named = (one for one in lines if "error:" in one.lower() or _STATE.search(one))
    line = next(named, lines[-1])
    return " ".join(line.split())

"""The container image's start script on this machine, with substitutes for svcctl and twistd.

tests/packages runs the script in the image.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

START = Path(__file__).parents[2] / "packaging" / "image" / "start"
INIT = """\
#!/bin/sh
echo "init $* database=$SVC_DATABASE_URL"
echo "live=$SVC_LIVE_URL"
echo GATEWAY_PORT=443 > DATA/gateway.env
touch DATA/metagame.env
"""
STACK = """\
#!/bin/sh
echo "twistd $*"
env | grep -E "POSTGRES|DATABASE|LIVE" || true
"""


class Start:
    """The start script, changed to use this machine's programs and a folder instead of /data."""

    def __init__(self, here: Path) -> None:
        self.data = here / "data"
        self.data.mkdir()
        home = "/usr/lib/svcserver/bin"
        text = START.read_text().replace(f"{home}/python", sys.executable)
        text = text.replace(f"{home}/twistd", "twistd").replace("/data", str(self.data))
        self.script = here / "start"
        self.script.write_text(text)
        for name, program in (("svcctl", INIT), ("twistd", STACK)):
            (here / name).write_text(program.replace("DATA/", f"{self.data}/"))
            (here / name).chmod(0o755)
        self.path = f"{here}:{os.environ['PATH']}"

    def says(self, *, ends: int = 0, **environ: str) -> str:
        """Run the script, assert its exit status ``ends``, and return its output."""
        ran = subprocess.run(
            ["sh", self.script],
            env={"PATH": self.path, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert ran.returncode == ends, ran.stdout
        return ran.stdout

    def has_a_host(self, port: str) -> None:
        """Create the files that a host with this gateway port has after its first start."""
        (self.data / "metagame.env").touch()
        (self.data / "gateway.env").write_text(f"GATEWAY_PORT={port}\n")


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return Start(tmp_path)


def test_the_first_start_makes_the_host_and_says_its_port(start: Start) -> None:
    reply = start.says(SVC_PUBLIC_HOST="play.example.org")
    assert "--public-host play.example.org:443 database=\n" in reply
    assert "by TCP port 443: publish it under the same number" in reply
    assert "twistd --nodaemon" in reply


def test_the_database_password_goes_only_into_its_url(start: Start) -> None:
    """compose.yaml has the URL without the password, because podman-compose prints the URL."""
    words = {"SVC_DATABASE_URL": "postgresql://svc@database/svc", "POSTGRES_PASSWORD": "a b@c"}
    made, _, stack = start.says(**words).partition("twistd")
    assert "database=postgresql://svc:a%20b%40c@database/svc\n" in made
    assert "--config" in stack and "DATABASE" not in stack and "POSTGRES" not in stack


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@db.example/x",
        "postgresql://me:@db.example/x",
        "postgresql://db.example/svc",
        "postgresql://db.example/svc?user=a@b",
        "sqlite:////srv/a@b.db",
        "nonsense",
    ],
)
def test_a_url_that_wants_no_password_stays_as_it_is(start: Start, url: str) -> None:
    """compose.yaml always sets a password, even if the URL names another database."""
    reply = start.says(SVC_DATABASE_URL=url, POSTGRES_PASSWORD="PW")
    assert f"database={url}\n" in reply


def test_a_url_that_names_its_driver_gets_the_password(start: Start) -> None:
    reply = start.says(
        SVC_DATABASE_URL="postgresql+psycopg://me@[::1]:5433/x", POSTGRES_PASSWORD="PW"
    )
    assert "database=postgresql+psycopg://me:PW@[::1]:5433/x\n" in reply


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("valkey://live:6379", "valkey://:a%20b%40c@live:6379"),
        ("rediss://me@[::1]:6380/2", "rediss://me:a%20b%40c@[::1]:6380/2"),
        ("valkeys://h.example?ca=/srv/ca.pem", "valkeys://:a%20b%40c@h.example?ca=/srv/ca.pem"),
        ("valkey://:secret@live:6379", "valkey://:secret@live:6379"),
        ("valkey://me:secret@live:6379", "valkey://me:secret@live:6379"),
        ("memory:", "memory:"),
        ("", ""),
    ],
)
def test_the_password_of_live_state_gets_into_a_url_that_lacks_it(
    start: Start, url: str, whole: str
) -> None:
    """An owner's Valkey may have a password, which need not appear on a command line."""
    reply = start.says(SVC_LIVE_URL=url, SVC_LIVE_PASSWORD="a b@c")
    made, _, stack = reply.partition("twistd")
    assert f"live={whole}\n" in made
    assert "--config" in stack and "LIVE" not in stack


def test_an_engine_without_a_password_is_refused_in_one_line(start: Start) -> None:
    """Without this refusal, ``svcctl init`` would set a password that the engine does not have."""
    reply = start.says(ends=1, SVC_LIVE_URL="valkey://live:6379", SVC_LIVE_PASSWORD="")
    [line] = reply.splitlines()
    assert "SVC_LIVE_PASSWORD" in line and "live.env" in line


def test_only_the_first_start_refuses_an_unpublished_port(
    start: Start,
) -> None:
    words = {"SVC_PUBLIC_HOST": "play.example.org:8443", "SVC_GATEWAY_PORT": "443"}
    assert "give SVC_GATEWAY_PORT=8443" in start.says(ends=1, **words)
    start.has_a_host("443")
    assert "ATTENTION" not in start.says(**words)


def test_a_port_is_read_as_the_gateway_reads_it(start: Start) -> None:
    for text in ("8443", '"8443"', " 8443 "):
        start.has_a_host(text)
        assert "ATTENTION" not in start.says(SVC_GATEWAY_PORT="8443")
        reply = start.says(SVC_GATEWAY_PORT="443")
        assert "SVC_GATEWAY_PORT=443, but this host's gateway listens on 8443" in reply
    assert "by TCP port 8443: publish" in start.says()


def test_a_port_that_differs_from_an_ipv6_host_causes_a_warning(start: Start) -> None:
    reply = start.says(SVC_PUBLIC_HOST="2001:db8::1", SVC_GATEWAY_PORT="8443")
    assert "SVC_GATEWAY_PORT=8443, but this host's gateway listens on 443" in reply

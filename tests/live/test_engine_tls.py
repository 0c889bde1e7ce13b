"""An engine over TLS with a certificate signed by the owner's certificate authority.

Real processes are needed because the engine is a program. If the installed engine was built without
TLS, a separate TLS proxy runs in front of it.
"""

import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from svcserver.board.address import EngineAddress
from svcserver.ctl.doctor.machine import fetch_engine_facts
from svcserver.kernel.refusals import Unavailable
from tests.support.authority import Authority
from tests.support.processes import eventually, metagame
from tests.support.valkey import PASSWORD, Instance

pytestmark = pytest.mark.live

TERMINATOR = """
import asyncio, ssl, sys

async def copy(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
    writer.close()

async def serve(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

async def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*sys.argv[2:])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@contextmanager
def engine(authority: Authority, address: str = "127.0.0.1") -> Iterator[str]:
    """Return the URL of an engine with a certificate for ``address``."""
    made = Instance.make()
    made.start()
    words = [sys.executable, "-c", TERMINATOR, str(made.port), *authority.certificate(address)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as terminator:
        try:
            assert terminator.stdout is not None
            port = int(terminator.stdout.readline())
            yield f"valkeys://:{PASSWORD}@127.0.0.1:{port}"
        finally:
            terminator.kill()
            made.end()


def registered(folder: Path, url: str) -> int:
    """Register a player and return the status; the metagame reads the engine during the request."""
    folder.mkdir()
    with metagame(folder, LIVE_URL=url) as service:
        status, body = service.ask("POST", "/svc/api/Register", {"Username": "Ann_1"})
        if status == Unavailable.status:
            eventually(lambda: "the live-state server at LIVE_URL cannot be reached" in service.log)
        else:
            assert orjson.loads(body)["UUK"]
        return status


def test_only_the_certificate_of_the_owners_authority_is_trusted(tmp_path: Path) -> None:
    ours, second = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    with engine(ours) as url:
        mine = f"{url}?ca={ours.file}"
        assert fetch_engine_facts(EngineAddress.parse(mine), 5.0).info["redis_version"]
        for wrong in (url, f"{url}?ca={second.file}"):
            with pytest.raises(ssl.SSLError):
                fetch_engine_facts(EngineAddress.parse(wrong), 5.0)
        assert registered(tmp_path / "a", mine) == 200
        assert registered(tmp_path / "b", f"{url}?ca={second.file}") == Unavailable.status


def test_a_certificate_for_another_address_is_not_trusted(tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    with engine(ours, "127.0.0.9") as url:
        assert registered(tmp_path / "a", f"{url}?ca={ours.file}") == Unavailable.status

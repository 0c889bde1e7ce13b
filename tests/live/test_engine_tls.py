"""An engine over TLS, whose certificate an authority of the owner's has signed.

Why processes: the engine is a program that is started with a certificate.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest

from svcserver.board.address import Address
from svcserver.ctl.doctor.engine import ask
from svcserver.kernel.refusals import Unavailable
from tests.support.authority import Authority
from tests.support.processes import eventually, metagame
from tests.support.valkey import Instance

pytestmark = pytest.mark.live


@contextmanager
def engine(authority: Authority, address: str = "127.0.0.1") -> Iterator[str]:
    """The address of one with a certificate for ``address``."""
    made = Instance.make()
    made.serve_tls(*authority.certificate(address))
    made.start()
    try:
        yield f"valkeys://127.0.0.1:{made.tls_port}"
    finally:
        made.end()


def registered(folder: Path, url: str) -> int:
    """The status of a registration, which asks the engine for the mode."""
    folder.mkdir()
    with metagame(folder, LIVE_URL=url) as service:
        status, body = service.ask("POST", "/svc/api/Register", {"Username": "Ann_1"})
        if status == Unavailable.status:
            eventually(lambda: "the engine of LIVE_URL cannot be reached" in service.log)
        else:
            assert orjson.loads(body)["UUK"]
        return status


def test_only_the_certificate_of_the_owners_authority_is_trusted(tmp_path: Path) -> None:
    ours, other = Authority(tmp_path / "ours"), Authority(tmp_path / "other")
    with engine(ours) as url:
        mine = f"{url}?ca={ours.file}"
        assert ask(Address.read(mine), 5.0).info["redis_version"]
        for wrong in (url, f"{url}?ca={other.file}"):
            with pytest.raises(ssl.SSLError):
                ask(Address.read(wrong), 5.0)
        assert registered(tmp_path / "a", mine) == 200
        assert registered(tmp_path / "b", f"{url}?ca={other.file}") == Unavailable.status


def test_a_certificate_for_another_address_is_not_trusted(tmp_path: Path) -> None:
    ours = Authority(tmp_path / "ours")
    with engine(ours, "127.0.0.9") as url:
        assert registered(tmp_path / "a", f"{url}?ca={ours.file}") == Unavailable.status

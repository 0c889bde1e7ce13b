"""Downloads through the real gateway over TLS.

Real processes are needed because memory is measured on both sides of TLS.
"""

import hashlib
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from svcserver.edge.certificate import make_pair, write_pair
from tests.live.test_content import BIG, FILES, MB, Content
from tests.support.processes import Service, eventually, free_port
from tests.support.proves import proves
from tests.support.requirements import skip


@contextmanager
def gateway_of(root: Path, content: Content) -> Iterator[Service]:
    """Run ``svc-gateway`` in front of ``content``."""
    certificate, key = write_pair(make_pair(["127.0.0.1"]), root / "tls")
    port = free_port()
    environ = {
        "GATEWAY_BIND": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "GATEWAY_CERT": str(certificate),
        "GATEWAY_KEY": str(key),
        "GATEWAY_SECRET": "g" * 40,
        "GATEWAY_ALLOWLIST": "0",
        "GATEWAY_CONTENT_URL": f"http://127.0.0.1:{content.port}",
    }
    service = Service("svc-gateway", root, environ, port)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def resume_through_gateway(root: Path, size: int) -> None:
    """Cut a download in the middle, resume it with curl and compare the hash."""
    if shutil.which("curl") is None:
        raise skip("curl", "it is not installed")
    with closing(Content(root, size)) as content, gateway_of(root, content) as gateway:
        target = root / "big.part"
        url = f"https://127.0.0.1:{gateway.port}{FILES}big.pak"
        command = ["curl", "-s", "-f", "-k", "-H", "x-svc-user-api-key: UUK_ann"]
        command += ["-o", str(target), url]
        before = content.service.rss(), gateway.rss()
        started = subprocess.Popen([*command, "--limit-rate", str(size // 4)])
        eventually(lambda: target.exists() and target.stat().st_size > size // 8)
        started.kill()
        started.wait(10)
        assert 0 < target.stat().st_size < size
        subprocess.run([*command, "-C", "-"], check=True, timeout=240)
        assert sha256(target) == content.manifest.files["big.pak"].sha256
        assert content.service.rss() - before[0] < 16 * MB
        assert gateway.rss() - before[1] < 16 * MB
        eventually(lambda: any(download["complete"] for download in content.downloads()))
        assert content.downloads()[-1]["ip"] == "127.0.0.1"


@proves("one byte range per request, resumed through the gateway")
def test_a_download_resumed_through_the_gateway_is_intact(
    tmp_path: Path,
) -> None:
    resume_through_gateway(tmp_path, BIG)


@pytest.fixture
def stalled(tmp_path: Path) -> Iterator[tuple[Content, Service]]:
    with closing(Content(tmp_path, 200 * MB)) as content, gateway_of(tmp_path, content) as gateway:
        yield content, gateway


@proves("limit: back-pressure end to end")
def test_a_reader_that_stalls_behind_the_gateway_costs_no_memory(
    stalled: tuple[Content, Service], tmp_path: Path
) -> None:
    if shutil.which("curl") is None:
        raise skip("curl", "it is not installed")
    content, gateway = stalled
    before = content.service.rss(), gateway.rss()
    url = f"https://127.0.0.1:{gateway.port}{FILES}big.pak"
    target = tmp_path / "slow.part"
    command = ["curl", "-s", "-k", "-H", "x-svc-user-api-key: UUK_ann", "-o", str(target), url]
    reader = subprocess.Popen([*command, "--limit-rate", "1M"])
    try:
        eventually(lambda: target.exists() and target.stat().st_size > 0)
        reader.send_signal(signal.SIGSTOP)
        status, body = content.read(FILES + "small.bin", "UUK_bob")
        assert (status, body) == (200, b"small")
        assert content.service.rss() - before[0] < 4 * MB
        assert gateway.rss() - before[1] < 16 * MB
    finally:
        reader.kill()
        reader.wait(10)
    eventually(lambda: content.downloads() and content.downloads()[-1]["complete"] is not None)
    eventually(lambda: any(download["complete"] is False for download in content.downloads()))

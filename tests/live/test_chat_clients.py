"""Chat with the client libraries others use, on Node: their reading of XMPP, not ours.

Why processes: the clients are Node programs.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.registries import loaded
from tests.support.requirements import skip

pytestmark = pytest.mark.live

HERE = Path(__file__).with_name("xmpp")
# each library in each part; strophe-old is of the time that sent an authzid
PAIRS = [
    ("@xmpp/client", "strophe.js"),
    ("strophe.js", "strophe-old"),
    ("strophe-old", "@xmpp/client"),
]
INSTALL_S = 300
TALK_S = 90


def node_modules() -> Path:
    """The libraries of the lock, installed once per lock; skips without Node or their registry."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise skip("node", "node and npm are not installed")
    lock = Path(HERE, "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "svcserver-tests")
    ready = cache / f"xmpp-{hashlib.sha256(lock).hexdigest()[:16]}" / "node_modules"
    if not ready.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix="xmpp-", dir=cache))  # noqa: TID251 - removed below
        try:
            _install(fresh)
            if not ready.is_dir():  # two runs at once: the first one's will do
                fresh.rename(ready.parent)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return ready


def _install(folder: Path) -> None:
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    done = loaded(command, INSTALL_S, folder)
    assert done.returncode == 0, done.stdout + done.stderr


def talk(folder: Path, service: Service, chat_port: int, ann: str, bob: str) -> list[str]:
    """Run both players to the end; their addresses as the libraries report them."""
    Path(folder, "node_modules").symlink_to(node_modules())
    for name in ("clients.mjs", "chat.mjs", "package.json"):
        shutil.copy(HERE / name, folder)
    players = {"a": register(service, "Ann_1"), "b": register(service, "Bob_1")}
    told = {
        "url": f"ws://127.0.0.1:{chat_port}//",
        "domain": "127.0.0.1:61000",
        "libraries": {"a": ann, "b": bob},
        "players": {
            part: {"id": player["id"], "token": player["token"], "name": name}
            for (part, player), name in zip(players.items(), ("Ann_1", "Bob_1"), strict=True)
        },
    }
    done = subprocess.run(
        ["node", "chat.mjs"],
        cwd=folder,
        input=json.dumps(told),
        capture_output=True,
        text=True,
        timeout=TALK_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}\n{service.log}"
    return list(json.loads(done.stdout.splitlines()[-1])["jids"])


@pytest.mark.parametrize(("ann", "bob"), PAIRS)
def test_real_client_libraries_log_in_join_say_whisper_and_leave(
    tmp_path: Path, ann: str, bob: str
) -> None:
    port = free_port()
    (tmp_path / "players").mkdir()
    with metagame(tmp_path, CHAT="1", CHAT_PORT=str(port)) as service:
        eventually(lambda: "chat: listening on" in service.log)
        jids = talk(tmp_path / "players", service, port, ann, bob)
        assert len(set(jids)) == 2
        eventually(lambda: service.log.count("reason=close") == 2)
        assert service.log.count("login ok") == 2
        assert "reason=left" in service.log
        assert "Traceback" not in service.log and "psst" not in service.log

"""Chat with independent XMPP client libraries on Node.

Real processes are needed because the clients are Node programs.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests import tools
from tests.support.processes import Service, eventually, free_port, metagame, register
from tests.support.requirements import skip

pytestmark = pytest.mark.live

HERE = Path(__file__).with_name("xmpp")
# each library in each role; strophe-old still sends an authzid
PAIRS = [
    ("@xmpp/client", "strophe.js"),
    ("strophe.js", "strophe-old"),
    ("strophe-old", "@xmpp/client"),
]
TALK_S = 90


def talk(folder: Path, service: Service, chat_port: int, ann: str, bob: str) -> list[str]:
    """Run the chat of two players; return their addresses as the libraries report them."""
    node = tools.find("node")
    if node is None or not tools.MODULES.is_dir():
        raise skip("node", tools.MISSING)
    Path(folder, "node_modules").symlink_to(tools.MODULES)
    for name in ("clients.mjs", "chat.mjs"):
        shutil.copy(HERE / name, folder)
    players = {"a": register(service, "Ann_1"), "b": register(service, "Bob_1")}
    deliveries = {
        "url": f"ws://127.0.0.1:{chat_port}//",
        "domain": "127.0.0.1:61000",
        "libraries": {"a": ann, "b": bob},
        "players": {
            part: {"id": player["id"], "token": player["token"], "name": name}
            for (part, player), name in zip(players.items(), ("Ann_1", "Bob_1"), strict=True)
        },
    }
    done = subprocess.run(
        [node, "chat.mjs"],
        cwd=folder,
        input=json.dumps(deliveries),
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

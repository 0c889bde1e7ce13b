"""The owner plays on the host's own PC, where the metagame has the port that the game needs.

Real processes are needed because the tests depend on how the kernel shares and lists ports.
"""

import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from svcserver.launcher import words
from tests.ctl.hosts import change, value
from tests.live.players_host import invite, players_host, running
from tests.live.players_terminal import Player
from tests.live.whole_game import TEXT
from tests.support.processes import eventually

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
COMMAND = (
    f"{sys.executable} -m tests.live.whole_game -server={{server}} -chat={{chat}} "
    "-AUTH_PASSWORD={key} -out={folder}/played.json"
)


@pytest.fixture(scope="module", params=["127.0.0.1", "0.0.0.0"])
def bound(request: pytest.FixtureRequest) -> str:
    """Return the address that the metagame listens at."""
    address: str = request.param
    return address


@pytest.fixture(scope="module")
def host(bound: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a host that tells clients to ping the metagame's port, as a host on port 61000 does."""
    made = players_host(tmp_path_factory.mktemp("own") / "host", "Own PC")
    change(made, "metagame", "BIND_HOST", bound)
    url = f"http://127.0.0.1:{value(made, 'metagame', 'PORT')}/QoS"
    change(made, "metagame", "QOS_TARGET_URL", url)
    with running(made):
        yield made


@pytest.fixture
def owner(host: Path, tmp_path: Path) -> Iterator[Player]:
    """Yield the owner's launcher, ready to play; its relay and the metagame have the same port."""
    port = value(host, "metagame", "PORT")
    player = Player(tmp_path, more={"SVC_RELAY_PORT": port, "PYTHONPATH": str(ROOT)})
    try:
        player.say(invite(host))
        player.hears("Type agree to continue.")
        player.say("agree")
        player.say(f"name Own_{tmp_path.name[-8:]}")
        player.hears("Type get.")
        player.say(f"set command {COMMAND}")
        player.say("get")
        player.hears("the game is ready")
        yield player
        player.say("quit")
        player.end()
    finally:
        player.process.kill()


def test_owner_plays_on_the_hosts_own_pc(host: Path, bound: str, owner: Player) -> None:
    port = value(host, "metagame", "PORT")
    way = f"127.0.0.{2 if bound == '127.0.0.1' else 1}:{port}"
    owner.say("play")
    owner.hears("you are playing as Own_")
    [folder] = (owner.home / "games").iterdir()
    played = folder / "played.json"
    eventually(lambda: played.exists() and played.read_text().endswith("}"), 60)
    assert json.loads(played.read_text()) == {
        "server": way,
        "chat": f"ws://{way}",
        "ping": [f"http://127.0.0.1:{port}/QoS", 200],
        "answer": True,
        "line": TEXT,
        "saves": 1,
    }
    owner.hears(words.GAME_ENDED)


@pytest.mark.parametrize("bound", ["127.0.0.1"], indirect=True)
def test_program_that_has_the_second_address_is_named(host: Path, owner: Player) -> None:
    port = int(value(host, "metagame", "PORT"))
    with socket.create_server(("127.0.0.2", port)):
        owner.say("play")
        program = f"{Path(sys.executable).name} (process {os.getpid()})"
        owner.hears(words.RELAY_BUSY.format(port=port, program=program))

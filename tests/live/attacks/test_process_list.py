"""The game-server key that any user can read in the process list. Spec: 1 §5.5.

Real processes are needed because the process list of running game servers is read.
"""

import os
import signal
from pathlib import Path

import pytest

from svcserver.db import migrations
from svcserver.db.engine import database_url, make_engine
from svcserver.metagame.accounts.store import add_game_server_key
from tests.live.deploying import deploy, servers
from tests.support.game import GAME_SERVER_KEY
from tests.support.processes import Service, eventually, metagame

pytestmark = pytest.mark.live


def test_a_launch_key_is_useless_after_its_game_server_ended(tmp_path: Path) -> None:
    engine = make_engine(database_url(f"sqlite:///{tmp_path}/svc.db"))
    migrations.upgrade(engine)
    with engine.begin() as tx:
        add_game_server_key(tx, GAME_SERVER_KEY)
    engine.dispose()
    with (
        deploy(tmp_path, GAMESERVER_LAUNCH_KEYS="1") as games,
        metagame(tmp_path, DEPLOYSERVER_URL=f"127.0.0.1:{games.port}") as players,
    ):
        pid, key = eventually(lambda: _read_key(games))
        assert key not in (GAME_SERVER_KEY, "")
        assert GAME_SERVER_KEY.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
        assert _call(players, key) == 200
        [before] = servers(games)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: servers(games) != [before])
        eventually(lambda: _call(players, key) == 401, 2.0)  # a valid key is cached for a second
        assert _call(players, "ab" * 32) == 401
        assert _call(players, GAME_SERVER_KEY) == 200
        for log in (players.log, games.log):
            assert key not in log


def _read_key(games: Service) -> tuple[int, str] | None:
    """Return the launch key that ``ps`` shows."""
    assert games.process is not None
    pid = games.process.pid
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        words = Path(f"/proc/{child}/cmdline").read_bytes().decode().split("\0")
        at = next((n for n, word in enumerate(words) if word.endswith("svc-gameserver-sim")), None)
        if at is not None and "child_setup.py" not in "".join(words[:at]):
            return int(child), words[at + 1]
    return None


def _call(players: Service, key: str) -> int:
    return players.ask("POST", "/heartbeat", {}, {"x-svc-gameserver-apikey": key})[0]

"""A stolen token after the token's owner got a new key. Spec: 1 §5.

Real processes are needed because the tests start game servers and restart a service within a
second.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson
import pytest

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from tests.chat.sockets import Talker
from tests.ctl.command import svcctl
from tests.support.processes import Service, bearer, eventually, free_port, metagame, register
from tests.support.watch import Watch

pytestmark = [pytest.mark.live, pytest.mark.alone]  # a second at most after a new key

AT_MOST_S = 1.0
ONLINE = "/svc/api/PublicOnlineStats"


def test_a_stolen_token_opens_nothing_a_second_after_a_new_key(tmp_path: Path) -> None:
    with metagame(tmp_path, CHAT="0") as service:
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")
        assert _status(service, ann) == 200
        environ = tmp_path / "metagame.env"
        environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        ran = svcctl("account", "new-key", "Ann_1", "--env-file", environ, "--json")
        assert ran.status == 0, ran.err
        with Watch() as watch:
            replies = orjson.loads(_log_in(service, ran.data["key"])[1])
            while (stolen := _status(service, ann)) == 200:
                assert watch.seconds < AT_MOST_S
        assert stolen == 401
        assert _status(service, {"token": replies["access_token"]}) == 200
        assert _status(service, bob) == 200
        assert _log_in(service, ann["key"])[0] == 400
    with metagame(tmp_path, CHAT="0") as service:  # the old key is also invalid after a restart
        assert (_status(service, ann), _status(service, bob)) == (401, 200)


def test_a_new_key_ends_chat_by_stolen_token_within_a_second(tmp_path: Path) -> None:
    port = free_port()
    with metagame(tmp_path, CHAT="1", CHAT_PORT=str(port)) as service:
        eventually(lambda: "chat: listening on" in service.log)
        ann = register(service, "Ann_1")
        thief = Talker(port, ann["id"], "Ann_1").log_in(ann["token"])
        environ = tmp_path / "metagame.env"
        environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        ran = svcctl("account", "new-key", "Ann_1", "--env-file", environ, "--json")
        assert ran.status == 0, ran.err
        with Watch() as watch:
            assert "not-authorized" in thief.hear("stream:error")
            assert thief.hear("<close") == serialize(stanza.CLOSE)
        assert watch.seconds < AT_MOST_S
        again = Talker(port, ann["id"], "Ann_1")
        assert "not-authorized" in again.try_token(ann["token"])
        replies = orjson.loads(_log_in(service, ran.data["key"])[1])
        owner = Talker(port, ann["id"], "Ann_1").log_in(replies["access_token"])
        for entry in (thief, again, owner):
            entry.wire.close()


def test_places_of_a_stolen_token_end_a_second_after_a_new_key(tmp_path: Path) -> None:
    with metagame(tmp_path, CHAT="0") as service:
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")

        def ask(player: dict[str, str], method: str, path: str, body: object = None) -> Any:
            status, reply = service.ask(method, path, body, bearer(player))
            assert status == 200, (path, reply)
            return orjson.loads(reply)

        party = ask(bob, "POST", "/party", {})["partyId"]
        request = {"recipientPlayerId": ann["id"], "partyId": party}
        ask(bob, "PUT", "/party/invite", request)
        ask(ann, "PUT", f"/party/invite/accept/{party}", {})
        for player in (ann, bob):
            ask(player, "POST", "/heartbeat", {"map": "m"})

        def places() -> tuple[bool, int]:
            members = orjson.dumps(ask(bob, "POST", "/party", {}))
            online = service.ask("GET", ONLINE, None, {"x-svc-user-api-key": bob["key"]})
            assert online[0] == 200
            return ann["id"].encode() in members, orjson.loads(online[1])["NumActivePlayers"]

        assert places() == (True, 2)
        environ = tmp_path / "metagame.env"
        environ.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        ran = svcctl("account", "new-key", "Ann_1", "--env-file", environ, "--json")
        assert ran.status == 0, ran.err
        eventually(lambda: places() == (False, 1), AT_MOST_S)


HUNT = {"gameMode": "ISLAND", "gameArgs": "", "playerHuntId": "CR19_PlayerHunt_Patrol_Flame"}


@contextmanager
def deploy_server() -> Iterator[tuple[int, list[list[str]]]]:
    """Run a fake deploy server that has no free game ports.

    Yield its own port and a list with the players of each launch request.
    """
    expected: list[list[str]] = []

    class Full(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # the metagame keeps connections, also to HTTP/1.0

        def do_POST(self) -> None:
            request = orjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
            expected.append(request["ExpectedPlayers"])
            reply = orjson.dumps({"error": "capacity_unavailable", "reason": "ports"})
            self.send_response(503)
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Full) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server.server_port, expected
        finally:
            server.shutdown()
            thread.join()


def test_a_thiefs_place_in_a_queue_ends_a_second_after_a_new_key(tmp_path: Path) -> None:
    environ = {"CHAT": "0", "MATCHMAKING_MODE": "DEPLOYSERVER"}
    with (
        deploy_server() as (port, expected),
        metagame(tmp_path, DEPLOYSERVER_URL=f"127.0.0.1:{port}", **environ) as service,
    ):
        ann, *others = (register(service, f"Hunter_{number}") for number in range(5))
        for entry in (ann, *others[:2]):
            assert service.ask("POST", "/candidate/join", HUNT, bearer(entry))[0] == 200
        file = tmp_path / "metagame.env"
        file.write_text(f"DATABASE_URL={service.environ['DATABASE_URL']}\n")
        ran = svcctl("account", "new-key", "Hunter_0", "--env-file", file, "--json")
        assert ran.status == 0, ran.err
        eventually(lambda: _status(service, ann) == 401, AT_MOST_S)
        owner = {"token": orjson.loads(_log_in(service, ran.data["key"])[1])["access_token"]}
        status, body = service.ask("GET", "/candidate/status", None, bearer(owner))
        nobody = service.ask("GET", "/candidate/status", None, bearer(others[3]))
        assert (status, body) == nobody  # the same reply as for a player who has never asked
        for entry in others[2:]:
            assert service.ask("POST", "/candidate/join", HUNT, bearer(entry))[0] == 200
        eventually(lambda: expected)
        assert expected[0] == [player["id"] for player in others]


def _log_in(service: Service, key: str) -> tuple[int, bytes]:
    return service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})


def _status(service: Service, player: dict[str, str]) -> int:
    return service.ask("GET", "/accountinfo", headers=bearer(player))[0]

"""Chat through a real metagame process: login, messages, leaving and failed starts.

Real processes are needed because the tests send SIGTERM and check failed starts.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from tests.chat.sockets import Talker, upgrade
from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import PATIENCE_S, bearer, eventually, free_port, metagame, register
from tests.support.proves import proves

pytestmark = pytest.mark.live


@pytest.fixture
def hang_up() -> Iterator[list[Talker]]:
    talkers: list[Talker] = []
    yield talkers
    for entry in talkers:
        entry.wire.close()


def talker(talkers: list[Talker], port: int, player: dict[str, str], name: str) -> Talker:
    made = Talker(port, player["id"], name)
    talkers.append(made)
    return made.log_in(player["token"])


@proves("chat: WebSocket: target //, protocol xmpp, one stanza per message")
def test_players_of_a_real_metagame_chat_whisper_and_see_departures(
    tmp_path: Path, hang_up: list[Talker]
) -> None:
    port = free_port()
    with metagame(tmp_path, CHAT="1", CHAT_PORT=str(port), CHAT_PRESENCE="1") as service:
        eventually(lambda: "chat: listening on" in service.log)
        players = {name: register(service, name) for name in ("Ann_1", "Bob_1")}
        ann, bob = (talker(hang_up, port, player, name) for name, player in players.items())
        assert b"101" in ann.head and b"xmpp" in ann.head
        assert 'code="110"' in ann.join("City-1")
        assert 'code="110"' in bob.join("City-1")
        assert bob.account in ann.hear("<presence")
        ann.say("City-1", "hello <&> ünïcode")
        for item in (ann, bob):
            assert "hello &lt;&amp;&gt; ünïcode" in item.hear("<message")
        bob.whisper(ann.account, "psst")
        assert f'from="{bob.account}@' in ann.hear("psst")
        assert 'type="error"' in bob.join("Party-not-mine")
        assert 'type="error"' in bob.join("Guild-not-mine")
        service.stop()
        assert ann.hear("<close") == serialize(stanza.CLOSE)
        assert bob.hear("<close") == serialize(stanza.CLOSE)
        assert "hello" not in service.log and "psst" not in service.log
        for player in players.values():
            assert player["token"] not in service.log
        assert "Traceback" not in service.log


@proves("event 4: chat pushes only with CHAT_PRESENCE=1", "event: Chat pushes")
@beside_a_metagame(CHAT="1", CHAT_PORT=FREE, CHAT_PRESENCE="1")
def test_friends_and_blocks_made_over_http_reach_the_chat(service: Beside) -> None:
    talkers: list[Talker] = []
    players = [register(service, name) for name in ("Ann_1", "Bob_1")]
    ann, bob = (
        talker(talkers, service.port("CHAT_PORT"), player, f"{name}_1")
        for player, name in zip(players, ("Ann", "Bob"), strict=True)
    )
    ann.show("away", "City-1")
    bob.show("away", "City-2")
    for me, second in (players, players[::-1]):
        path = f"/friends/api/public/friends/{me['id']}/{second['id']}"
        status, body = service.ask("POST", path, headers=bearer(me))
        assert status in (200, 204), (status, body)
    for player, direction in ((ann, "OUTBOUND"), (bob, "INBOUND")):
        assert direction in player.hear("xmpp-admin@")
        assert "<show>away</show>" in player.hear("<presence")
    path = f"/friends/api/public/blocklist/{players[0]['id']}/{players[1]['id']}"
    status, body = service.ask("POST", path, headers=bearer(players[0]))
    assert status in (200, 204), (status, body)
    for player in (ann, bob):
        assert 'type="unavailable"' in player.hear("<presence")
    # and again after the block is lifted, because both stayed signed in
    status, body = service.ask("DELETE", path, headers=bearer(players[0]))
    assert status in (200, 204), (status, body)
    for me, second in (players, players[::-1]):
        path = f"/friends/api/public/friends/{me['id']}/{second['id']}"
        status, body = service.ask("POST", path, headers=bearer(me))
        assert status in (200, 204), (status, body)
    for player in (ann, bob):
        assert "ACCEPTED" in player.hear("xmpp-admin@")
        assert "<show>away</show>" in player.hear("<presence")
    for player in talkers:
        player.wire.close()


def status_of(port: int, request: bytes) -> bytes:
    """Send a request, and return the status of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as wire:
        wire.sendall(request)
        return wire.recv(4096)[9:12]


@beside_a_metagame(CHAT="1", CHAT_PORT=FREE, BIND_HOST="0.0.0.0", CHAT_MAX_CONNECTIONS="4")
def test_chat_is_also_on_a_metagames_port_at_all_addresses(service: Beside) -> None:
    port = service.port()
    players = [register(service, name) for name in ("Ann_1", "Bob_1")]
    talkers: list[Talker] = []
    ann = talker(talkers, port, players[0], "Ann_1")
    bob = talker(talkers, service.port("CHAT_PORT"), players[1], "Bob_1")
    for player in (ann, bob):
        player.join("City-1")
    ann.say("City-1", "hello")
    assert "hello" in bob.hear("<message")
    # the chat's limits apply, and nothing a stranger sends harms the metagame
    for request, status in (
        (upgrade(more="X-Forwarded-For: 203.0.113.9\r\n"), b"404"),
        (upgrade(more="Origin: https://evil.example\r\n"), b"404"),
        (upgrade().replace(b"Version: 13", b"Version: 99"), b"400"),
        (upgrade().replace(b"AAAA==", b"=="), b"400"),
        (upgrade(more=f"X: {'x' * 20_000}\r\n"), b"431"),
    ):
        assert status_of(port, request) == status, request[:300]
    with ExitStack() as crowd:
        for _ in range(3):
            wire = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            crowd.enter_context(wire)
            wire.sendall(upgrade())
            answer = wire.recv(4096)
        assert answer.startswith(b"HTTP/1.1 503 ")  # the chat is full
        assert service.ask("GET", "/svc-status")[0] == 200
    bob.say("City-1", "still here")
    assert "still here" in ann.hear("still here")
    for player in talkers:
        player.wire.close()


@beside_a_metagame(CHAT="1", CHAT_PORT=FREE)
def test_chat_is_not_on_a_metagames_port_at_loopback(service: Beside) -> None:
    assert status_of(service.port(), upgrade()) == b"404"


def test_a_bad_chat_port_is_logged_and_the_metagame_runs_on(tmp_path: Path) -> None:
    with metagame(tmp_path, CHAT="1", CHAT_PORT="no") as service:
        eventually(lambda: "the chat did not start: CHAT_PORT must be" in service.log)
        assert register(service, "Still_here")["token"]
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        taken = str(holder.getsockname()[1])
        with metagame(tmp_path, CHAT="1", CHAT_PORT=taken) as service:
            eventually(lambda: "the chat did not start: CHAT_PORT 127.0.0.1:" in service.log)
            assert register(service, "Here_too")["token"]


def test_without_the_chat_switch_the_chat_port_is_closed(tmp_path: Path) -> None:
    port = free_port()
    with metagame(tmp_path, CHAT_PORT=str(port)), socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0

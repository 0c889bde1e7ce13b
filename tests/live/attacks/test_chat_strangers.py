"""Attacks on chat: failed logins in a player's name, and many connections from one network.

Real processes are needed because the waiting time of other players is measured during the
attack.
"""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from attrs import define, field

from tests.chat.sockets import Talker
from tests.support.processes import Service, eventually, free_port, metagame, register

pytestmark = pytest.mark.live

SECRET = "a gateway's secret, long enough for the chat"
MOST = 40  # sockets that the chat takes at once


@define
class Chat:
    """A metagame with chat; the test connects as the gateway does, with any client address."""

    service: Service
    port: int
    open: list[socket.socket] = field(factory=list)

    def connect(self, player: dict[str, str], address: str) -> Talker:
        vouched = f"X-Svc-Gateway: {SECRET}\r\nX-Forwarded-For: {address}\r\n"
        made = Talker(self.port, player["id"], player["name"], more=vouched)
        self.open.append(made.wire)
        return made

    def fail(self, player: dict[str, str], address: str) -> str:
        """Log in with a bad token, close the socket and return the chat's reply."""
        stranger = self.connect(player, address)
        reply = stranger.try_token("no.such.token")
        stranger.wire.close()
        return reply

    def join(self, name: str) -> dict[str, str]:
        return {**register(self.service, name), "name": name}


@pytest.fixture
def chat(tmp_path: Path) -> Iterator[Chat]:
    port = free_port()
    switches = {"CHAT": "1", "CHAT_PORT": str(port), "CHAT_MAX_CONNECTIONS": str(MOST)}
    with metagame(tmp_path, GATEWAY_SECRET=SECRET, **switches) as service:
        eventually(lambda: "chat: listening on" in service.log)
        made = Chat(service, port)
        try:
            yield made
        finally:
            for item in made.open:
                item.close()


def test_bad_tokens_in_a_players_name_do_not_keep_the_player_out(chat: Chat) -> None:
    ann = chat.join("Ann_1")
    for number in range(12):
        chat.fail(ann, f"2001:db8:0:{number}::1")  # from many networks
        chat.fail(ann, "203.0.113.9")  # and from the player's own
    chat.connect(ann, "203.0.113.9").log_in(ann["token"])
    chat.connect(ann, "198.51.100.7").log_in(ann["token"])


def test_guesses_from_one_network_are_throttled(chat: Chat) -> None:
    names = [chat.join(f"Ann_{number}") for number in range(4)]
    replies = [chat.fail(names[at % 4], f"2001:db8:0:1::{at:x}") for at in range(1, 21)]
    assert ["not-authorized" in reply for reply in replies] == [True] * 10 + [False] * 10
    assert all("temporary-auth-failure" in reply for reply in replies[10:])
    assert "not-authorized" in chat.fail(names[0], "2001:db8:0:2::1")


def test_one_network_neither_fills_the_chat_nor_keeps_others_out(chat: Chat) -> None:
    ann, bob = chat.join("Ann_1"), chat.join("Bob_1")
    flood = [chat.connect(bob, f"2001:db8:0:1::{number:x}") for number in range(MOST)]
    taken = [client for client in flood if b" 101 " in client.head]
    assert 0 < len(taken) <= MOST // 4, len(taken)
    flood += [chat.connect(bob, f"2001:db8:1:{number:x}::1") for number in range(MOST)]
    assert sum(b" 101 " in client.head for client in flood) >= MOST
    chat.connect(ann, "203.0.113.9").log_in(ann["token"])

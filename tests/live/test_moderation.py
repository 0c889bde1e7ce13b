"""Staff actions on players who are busy with something else, with real processes.

Real processes are needed because game servers are child processes, and the gateway and the
metagame run separately.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from svcserver.chat import stanza
from svcserver.chat.stanza import serialize
from tests.chat.sockets import Talker
from tests.ctl.command import svcctl
from tests.live.attacks.test_sessions import HUNT, deploy_server
from tests.support.joined import FREE, Beside, beside_a_metagame
from tests.support.processes import (
    Answering,
    Service,
    bearer,
    env_file,
    eventually,
    free_port,
    metagame,
    register,
)
from tests.support.proves import proves
from tests.support.watch import Watch

pytestmark = pytest.mark.live

# A second is promised, which WithinASecondTests proves for each action with a fake clock. These
# tests use real time, so a busy machine gets a second more.
AT_MOST_S = 2.0


@proves("svcctl ban, unban")
def test_a_ban_during_a_hunt_ends_the_session_until_the_unban(tmp_path: Path) -> None:
    chat = free_port()
    environ = {"CHAT": "1", "CHAT_PORT": str(chat), "MATCHMAKING_MODE": "DEPLOYSERVER"}
    with (
        deploy_server() as (port, _),
        metagame(tmp_path, DEPLOYSERVER_URL=f"127.0.0.1:{port}", **environ) as service,
    ):
        eventually(lambda: "chat: listening on" in service.log)
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")
        file = env_file(tmp_path, service.environ)
        for entry in (ann, bob):
            assert service.ask("POST", "/candidate/join", HUNT, bearer(entry))[0] == 200
            beat = {"map": "cora_jamima", "state": "island"}
            assert service.ask("POST", "/heartbeat", beat, bearer(entry))[0] == 200
        talker = Talker(chat, ann["id"], "Ann_1").log_in(ann["token"])
        ran = svcctl("ban", "Ann_1", "--for", "1h", "--reason", "cheats", "--env-file", file)
        assert ran.status == 0, ran.err
        with Watch() as watch:
            assert "not-authorized" in talker.hear("stream:error")
            assert talker.hear("<close") == serialize(stanza.CLOSE)
            eventually(lambda: _status(service, ann) == 401)
        assert watch.seconds < AT_MOST_S
        assert _status(service, bob) == 200
        key = {"x-svc-user-api-key": bob["key"]}
        online = orjson.loads(service.ask("GET", "/svc/api/PublicOnlineStats", None, key)[1])
        assert online == {"NumActivePlayers": 1}
        assert _log_in(service, ann["key"]) == _log_in(service, "UUK_" + "0" * 48)
        assert svcctl("unban", "Ann_1", "--env-file", file).status == 0
        status, body = _log_in(service, ann["key"])
        assert status == 200
        again = {"token": orjson.loads(body)["access_token"]}
        nobody = service.ask("GET", "/candidate/status", None, bearer(register(service, "Cleo")))
        assert service.ask("GET", "/candidate/status", None, bearer(again)) == nobody
        talker.wire.close()


def say(talker: Talker, text: str, line: str = "m") -> None:
    """Send a line with the id ``line`` to the room ``General``."""
    to = f"General@muc.{talker.domain}"
    body = f"<body>{text}</body>"
    talker.send(f'<message type="groupchat" to="{to}" id="{line}">{body}</message>')


@proves("svcctl mute, unmute, kick", "a muted player's lines")
def test_a_mute_stops_a_players_lines_and_whispers(tmp_path: Path) -> None:
    chat = free_port()
    # high, so that lines are refused only because of the mute
    often = {"CHAT_MESSAGE_RATE": "60,60"}
    with metagame(tmp_path, CHAT="1", CHAT_PORT=str(chat), **often) as service:
        eventually(lambda: "chat: listening on" in service.log)
        ann, bob = register(service, "Ann_1"), register(service, "Bob_1")
        file = env_file(tmp_path, service.environ)
        talker = Talker(chat, ann["id"], "Ann_1").log_in(ann["token"])
        second = Talker(chat, bob["id"], "Bob_1").log_in(bob["token"])
        talker.join("General"), second.join("General")

        def whisper(text: str) -> None:
            to = f"{bob['id']}@{second.domain}"
            talker.send(f'<message type="chat" to="{to}" id="w"><body>{text}</body></message>')

        def until(counts: Callable[[str], bool]) -> None:
            """Say lines until the outcome of one satisfies ``counts``; fail if that takes long."""
            with Watch() as watch:
                eventually(lambda: counts(tried(talker)))
            assert watch.seconds < AT_MOST_S

        whisper("before")
        assert "before" in second.hear("<body>")
        ran = svcctl("mute", "Ann_1", "--reason", "spam", "--env-file", file)
        assert ran.status == 0, ran.err
        until(lambda messages: "not-acceptable" in messages)
        whisper("meanwhile")
        say(talker, "meanwhile in the room")
        assert "not-acceptable" in talker.hear("not-acceptable")
        say(second, "others go on")
        while "others go on" not in (reply := second.hear("<body>")):
            assert "meanwhile" not in reply
        assert svcctl("unmute", "Ann_1", "--env-file", file).status == 0
        until(lambda messages: "not-acceptable" not in messages)
        whisper("after")
        assert second.hear("<body>after")
        talker.wire.close(), second.wire.close()


def tried(talker: Talker) -> str:
    """Say a line in the room ``General`` and return the outcome."""
    say(talker, "any line", "try")
    return talker.hear('id="try"')


@proves("POST DashboardKick", "POST DashboardBan")
@beside_a_metagame(CHAT="1", CHAT_PORT=FREE)
def test_a_kick_or_ban_holds_at_once_and_ends_the_chat(service: Beside) -> None:
    """The test checks the order of events, not times, so that it works on a busy machine."""
    eventually(lambda: "chat: listening on" in service.log)
    file = env_file(service.folder, service.environ)
    made = svcctl("account", "create", "Olga", "--owner", "--json", "--env-file", file)
    owner = {"x-svc-user-api-key": made.data["key"]}
    player = register(service, "Ann_1")

    def does(act: str) -> None:
        status, body = service.ask("POST", f"/svc/api/Dashboard{act}", {"Account": "Ann_1"}, owner)
        assert status == 200, body

    for act, status in (("Kick", 200), ("Ban", 400)) * 3:
        talker = Talker(service.port("CHAT_PORT"), player["id"], "Ann_1").log_in(player["token"])
        talker.join("General")
        assert _status(service, player) == 200
        does(act)
        assert _status(service, player) == 401
        with service.still():  # the chat had sent its lines before that answer
            assert "not-authorized" in talker.hear("stream:error")
            assert talker.hear("<close") == serialize(stanza.CLOSE)
        talker.wire.close()
        assert _log_in(service, player["key"])[0] == status
        if act == "Ban":
            does("Unban")
        replies = _log_in(service, player["key"])[1]
        player["token"] = orjson.loads(replies)["access_token"]


SECRET = "s" * 32


@proves("a mute by addresses")
@beside_a_metagame(CHAT="1", CHAT_PORT=FREE, GATEWAY_SECRET=SECRET, CHAT_MESSAGE_RATE="600,600")
def test_an_address_mute_applies_to_chat_from_the_address(service: Beside) -> None:
    eventually(lambda: "chat: listening on" in service.log)
    file = env_file(service.folder, service.environ)
    port, came = service.port("CHAT_PORT"), "2001:db8:5:2::7"
    player = register(service, "Loud_1")
    through = {"X-Forwarded-For": came, "x-svc-gateway": SECRET}
    key = {"exchange_code": player["key"]}
    assert service.ask("POST", "/account/api/oauth/token", key, through)[0] == 200
    talkers = []
    for name, address in (("Loud_2", "2001:db8:5:2::8"), ("Calm_1", "2001:db8:5:3::7")):
        entry = register(service, name)
        more = f"X-Forwarded-For: {address}\r\nx-svc-gateway: {SECRET}\r\n"
        talker = Talker(port, entry["id"], name, more=more).log_in(entry["token"])
        talker.join("General")
        talkers.append(talker)

    def muted() -> bool:  # the player's address is stored only after the answer
        ran = svcctl("mute", "Loud_1", "--addresses", "--json", "--env-file", file)
        assert ran.status == 0, ran.err
        return bool(ran.data["sanction"]["networks"] == ["2001:db8:5:2::/64"])

    eventually(muted)
    with Watch() as watch:
        eventually(lambda: "not-acceptable" in tried(talkers[0]))
    assert watch.seconds < AT_MOST_S
    assert "not-acceptable" not in tried(talkers[1])
    assert svcctl("unmute", "Loud_1", "--env-file", file).status == 0
    with Watch() as watch:
        eventually(lambda: "not-acceptable" not in tried(talkers[0]))
    assert watch.seconds < AT_MOST_S
    for entry in talkers:
        entry.wire.close()


@proves("a ban by addresses")
@beside_a_metagame(CHAT="1", CHAT_PORT=FREE, GATEWAY_SECRET=SECRET)
def test_an_address_ban_applies_to_players_from_the_address(service: Beside) -> None:
    eventually(lambda: "chat: listening on" in service.log)
    file = env_file(service.folder, service.environ)

    def comes(name: str, address: str) -> dict[str, str]:
        """Log a player in through the gateway."""
        player = register(service, name)
        through = {"X-Forwarded-For": address, "x-svc-gateway": SECRET}
        key = {"exchange_code": player["key"]}
        status, body = service.ask("POST", "/account/api/oauth/token", key, through)
        return {**player, "token": orjson.loads(body)["access_token"]} if status == 200 else {}

    ann, bob = comes("Ann_1", "2001:db8:1:2::7"), comes("Bob_1", "2001:db8:1:2::8")
    cleo = comes("Cleo", "2001:db8:1:3::7")
    talkers = [
        Talker(service.port("CHAT_PORT"), player["id"], name).log_in(player["token"])
        for player, name in ((bob, "Bob_1"), (cleo, "Cleo"))
    ]

    def banned() -> bool:  # Ann's address is stored only after her answer
        ran = svcctl("ban", "Ann_1", "--addresses", "--json", "--env-file", file)
        assert ran.status == 0, ran.err
        return bool(ran.data["sanction"]["networks"] == ["2001:db8:1:2::/64"])

    eventually(banned)
    with Watch() as watch:
        assert "not-authorized" in talkers[0].hear("stream:error")
        eventually(lambda: _status(service, ann) == _status(service, bob) == 401)
    assert watch.seconds < AT_MOST_S
    assert _status(service, cleo) == 200
    assert comes("Dora", "2001:db8:1:2:ffff::1") == {}
    talkers[1].join("General")
    for first in talkers:
        first.wire.close()


def _log_in(service: Service, key: str) -> tuple[int, bytes]:
    return service.ask("POST", "/account/api/oauth/token", {"exchange_code": key})


def _status(service: Answering, player: dict[str, str]) -> int:
    return service.ask("GET", "/accountinfo", headers=bearer(player))[0]

"""A game client with the requests of the real game; a launcher starts it in place of the game.

The client logs in, loads, looks at the region list, chats in the city, finds the city's game
server, saves, and writes down what it received.
"""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from twisted.internet import task
from twisted.internet.defer import Deferred

from svcserver.ctl.play import datagram
from svcserver.ctl.play.player import Player
from svcserver.ctl.play.wire import HttpWire
from svcserver.players.chat import ChatClient, Line
from svcserver.players.websocket import connect

ROOM, TEXT = "City-own-pc", "Good hunting"


async def play(clock: Any, server: str, chat: str, key: str) -> dict[str, Any]:
    """Play for a short time, and return the results."""
    wire = HttpWire(clock, f"http://{server}")
    player = Player(clock, wire, "", key=key)
    await player.log_in()
    player.name = (await wire.send_request("GET", "/accountinfo")).json["username"]
    await player.load()
    regions = (await wire.send_request("GET", "/candidate/regions")).json
    [url] = regions["payload"]["regionUrls"]
    ping = HttpWire(clock, url.removesuffix("/QoS"))
    pong = (await ping.send_request("GET", "/QoS")).status
    await player.join("CITY")
    place = await player.wait_for_server()
    reply = await datagram.answer_of(clock, place.host, place.port, "")
    await player.beat("/Game/Maps/city")
    lines: list[Line] = []
    client = ChatClient(clock, player.account, player.name, server, on_line=lines.append)
    address = urlsplit(chat)
    assert address.hostname is not None and address.port is not None
    await connect(clock, client, address.port, address.hostname)
    await client.log_in(player.token)
    assert await client.enter(ROOM)
    client.send_to_room(ROOM, TEXT)
    while not lines:
        await task.deferLater(clock, 0.1)
    await player.save()
    await task.deferLater(clock, 3)  # a player stays longer than the launcher's terminal looks away
    client.close()
    await ping.close()
    await wire.close()
    return {
        "server": server,
        "chat": chat,
        "ping": [url, pong],
        "answer": bool(reply),
        "line": lines[0].text,
        "saves": player.saves,
    }


def main() -> None:
    """Play with the arguments that the launcher gives, and write the results to a file."""
    options = dict(word.removeprefix("-").split("=", 1) for word in sys.argv[1:])

    async def run(clock: Any) -> None:
        results = await play(clock, options["server"], options["chat"], options["AUTH_PASSWORD"])
        Path(options["out"]).write_text(json.dumps(results))  # noqa: ASYNC240 - nothing else runs

    task.react(lambda clock: Deferred.fromCoroutine(run(clock)))


if __name__ == "__main__":
    main()

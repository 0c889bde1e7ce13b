"""Checks of the live-state board at the end of a run: no players, and consistent entries."""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from simulation.host import SimHost
from svcserver.board.engine_transaction import PREFIX, TAG
from svcserver.board.scripts import STAMP

SEATS = 4  # of a party
# kinds of entries that expire long before the audit
OVER = (
    "online",
    "party_invites_to",
    "party_invites_of",
    "party_declined",
    "party_done",
    "party_invites_sent",
    "friends_ended",
    "chat_waiting",
)
Entries = Mapping[str, Mapping[str, Any]]  # kind -> key -> value


def entries(host: SimHost) -> Entries:
    """Return all live entries of the board."""
    board: dict[str, dict[str, Any]] = defaultdict(dict)
    if host.valkey is not None:
        for key, value in host.valkey.live():
            kind, _, name = key.removeprefix(PREFIX).partition(":")
            board[kind][name] = _value(value[STAMP:])
    elif host.board is not None:
        for kind, rows in host.board.saved().items():
            for name, value, _ in rows:
                board[kind][name] = json.loads(orjson.dumps(value))
    return board


def _value(stored: bytes) -> Any:
    """Return the value of an entry, whether it is signed or not."""
    try:
        return json.loads(stored)
    except ValueError:
        return json.loads(stored[TAG:])


def wrong(board: Entries, now: float) -> Iterator[tuple[str, str]]:
    """Yield the rule and text of each violation.

    The check is only right if all players have been away for at least 15 minutes.
    """
    for kind in OVER:
        for key in board[kind]:
            yield "live state agrees", f"{kind} still has {key}"
    yield from _parties(board["parties"], board["party_of"])
    yield from _matches(board, now)


def _parties(parties: Mapping[str, Any], party_of: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Check the size and the leader of each party, and that members and seats agree."""
    for key, party in parties.items():
        members, leader = party["members"], party["leader"]
        if leader not in members:
            yield "one leader", f"{key} is led by {leader}, who is not in it"
        if len(members) > SEATS or len(set(members)) != len(members):
            yield "seats within limits", f"{key} has {len(members)} members"
        for member in members:
            if party_of.get(member) != key:
                yield (
                    "one party each",
                    f"{member} has a seat in {key}, and is in {party_of.get(member)}",
                )
    for account, key in party_of.items():
        if account not in parties.get(key, {"members": ()})["members"]:
            yield "one party each", f"{account} is in {key} without a seat in it"


def _matches(board: Entries, now: float) -> Iterator[tuple[str, str]]:
    """Check that no match still requests a game server, and that each queue has players."""
    matches, places = board["matches"], board["candidates"]
    for key, match in matches.items():
        if match["asking_until"] > now:
            yield "live state agrees", f"somebody still asks for a server for {key}"
    for account, place in places.items():
        match = matches.get(place["match_id"])
        if match is None or place["candidate_id"] != match["known_as"].get(account):
            yield "live state agrees", f"{account} waits for {place['match_id']}, which is not so"
    for hunt, key in board["queues"].items():
        match = matches.get(key)
        if match is None or not match["queued"]:
            yield "live state agrees", f"the queue for {hunt} is {key}, which is closed"
        elif not any(places.get(player, {}).get("match_id") == key for player in match["players"]):
            yield "live state agrees", f"the queue for {hunt} is {key}, in which nobody stands"

"""A flight recorder's file as a script for the simulation's players."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import frozen

from svcserver.kernel import json
from svcserver.sim.script import Step

MAX_PLAYERS = 400
MAX_LINES = 2_000_000
SETTLES_S = 5.0  # from the start of the simulation to the first recorded request
# the beginning of a row's name: the act of a simulated player that sends such a request
ACTS: Mapping[str, str] = {
    "POST /account/api/oauth/token": "log_in",
    "GET /character": "load",
    "POST /character": "save",
    "POST /heartbeat": "heartbeat",
    "POST /candidate/join": "hunt",
    "POST /inventory": "earn",
    "GET /inventory": "look",
    "POST /progression": "granted",
    "POST /party": "poll_party",
    "PUT /party/invite/accept": "accept",
    "PUT /party/invite": "invite",
    "DELETE /party/member": "leave_party",
    "PUT /party/member/promote": "promote",
    "PUT /friends": "befriend",
    "POST /friends": "befriend",
    "GET /friends": "glance",
    "GET /progression": "glance",
    "GET /progression/objectives": "earned",
    "GET /svc/api/ServerStatus": "glance",
    "POST /guild": "guild",
    "PUT /guild": "guild",
    "POST /inventory/instanceditem": "hone",
    "GET /balance": "look",
    "POST /bounty": "bounty",
    "POST /huntpass": "choose_pass",
    "GET /bounty": "earned",
    "GET /huntpass": "earned",
    "POST /loadout": "arm",
    "GET /loadout": "armed",
    "GET /token": "shop",
    "PUT /slayerlink/invite": "link",
    "POST /slayerlink/invite": "link",
    "DELETE /slayerlink/links": "link",
}
_LONGEST_FIRST = sorted(ACTS, key=len, reverse=True)


class BadRecord(ValueError):
    """A line is none of a flight recorder; ``str()`` says which."""


@frozen
class Recorded:
    """What a recording became; ``left_out``: requests that no simulated player makes."""

    steps: tuple[Step, ...]
    players: int
    seconds: float
    left_out: int


def recorded(lines: Iterable[str]) -> Recorded:
    """The script; raises BadRecord. Players beyond ``MAX_PLAYERS`` are left out."""
    found = sorted((_read(line, at) for at, line in enumerate(lines, 1)), key=lambda one: one[0])
    began = found[0][0] if found else 0.0
    players: dict[str, int] = {}
    steps: list[Step] = []
    left_out = 0
    for number, (time, who, route) in enumerate(found):
        act = act_of(route)
        if act is None or not who or (who not in players and len(players) >= MAX_PLAYERS):
            left_out += 1
            continue
        dice = zlib.crc32(f"{number} {route}".encode())
        at = round(time - began + SETTLES_S, 3)
        if who not in players:  # the recording may begin in the middle of a player's evening
            players[who] = len(players)
            if act != "log_in":
                steps.append(Step(max(0.0, at - SETTLES_S), players[who], "log_in", dice))
        steps.append(Step(at, players[who], act, dice))
    last = found[-1][0] - began if found else 0.0
    ordered = tuple(sorted(steps, key=lambda one: one.at))
    return Recorded(ordered, len(players), last + 2 * SETTLES_S, left_out)


def act_of(route: str) -> str | None:
    """What a simulated player does to send such a request; None where none does."""
    for start in _LONGEST_FIRST:
        if route == start or route.startswith(f"{start}/"):
            return ACTS[start]
    return None


def _read(line: str, at: int) -> tuple[float, str, str]:
    if at > MAX_LINES:
        raise BadRecord(f"it has more than {MAX_LINES} lines")
    try:
        said: Any = json.parse(line.encode())
        return float(said["t"]), str(said["who"]), str(said["route"])
    except (json.BadJson, KeyError, TypeError, ValueError):
        raise BadRecord(f"line {at} is none of a flight recorder") from None

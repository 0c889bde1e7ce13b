"""What players do with parties, friends and guilds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from simulation.history import PATIENCE_S
from simulation.owed import Invite
from simulation.player import SimPlayer, together
from svcserver.players import requests

May = Callable[[int], bool]


async def poll_party(me: SimPlayer, dice: random.Random) -> None:
    """The client's poll, a sign of life."""
    await party_of(me)


async def party_of(me: SimPlayer) -> dict[str, Any] | None:
    """What the player is shown of the party.

    ``moves``, a key of ours: how often the player had moved when it was asked for; -1: who knows.
    """
    moves = -1 if _astray(me) else me.moves
    heard = await me.ask("POST", "/party", {})
    if heard.status != 200 or "partyId" not in (heard.json or {}):
        return None
    seen: dict[str, Any] = heard.json
    seen.setdefault("playerIds", [me.account])  # a party of one does not list its member
    seen.setdefault("leaderPlayerId", me.account)
    seen["moves"] = moves
    me.party = str(seen["partyId"])
    members = [str(one) for one in seen["playerIds"]]
    me.history.parties.seen(me.account, me.party, members, str(seen["leaderPlayerId"]))
    return seen


def unless_leading(me: SimPlayer, seen: dict[str, Any] | None, moves: int = 0) -> May:
    """What a right host may say to who does not lead the party that was just seen, or may not.

    ``moves``: of the player's own that come with the request itself.
    """
    leads, then = False, 0
    if seen is not None and seen["moves"] >= 0:
        leads, then = seen["leaderPlayerId"] == me.account, seen["moves"] + moves
    return lambda status: status in (400, 403) and not (leads and me.moves == then)


async def _invite(me: SimPlayer, other: SimPlayer, seen: dict[str, Any] | None) -> bool:
    """Invite them into the party that was just seen; whether it was acknowledged."""
    party, still = me.party, _stays(me, other)
    call = requests.invite(other.account, party)
    heard = await me.ask(*call, may=unless_leading(me, seen))
    if heard.status < 300 and still() and seen is not None and seen["moves"] == me.moves:
        one = Invite(party, me.name, other.name, me.now, still)
        me.history.invites.sent(other.account, one)
    return heard.status < 400


def _stays(*people: SimPlayer) -> Callable[[], bool]:
    """Tells whether none of them has moved to another party since, gone away or been sent away."""

    def standing() -> list[tuple[int, int, float]]:
        return [(one.moves, one.sitting, one.shut_out_at) for one in people]

    then, sure = standing(), not any(_astray(one) for one in people)
    return lambda: sure and standing() == then


def _astray(me: SimPlayer) -> bool:
    """Whether a move of the player is under way, or may be: its answer was lost.

    Whose sessions the owner has just ended leaves the party once the metagame has noticed.
    """
    return me.moving > 0 or me.now - me.astray_at <= PATIENCE_S or me.is_over(me.now)


async def invite(me: SimPlayer, dice: random.Random) -> None:
    """Invite somebody into the party."""
    other = me.other(dice)
    if other is not None:
        await _invite(me, other, await party_of(me))
        if dice.random() < 0.6 and other.token and not other.busy:
            await other.act("accept", dice)


async def gather(me: SimPlayer, dice: random.Random) -> None:
    """Invite more people than a party has seats; all accept at the same instant."""
    seen, party = await party_of(me), me.party
    if not party:  # quit meanwhile, or the host is away
        return
    there = [one for one in me.everybody if one is not me and one.token and not one.busy]
    asked = []
    for other in dice.sample(there, min(5, len(there))):
        if await _invite(me, other, seen) and other.token:
            asked.append(other)
    await together(me, [join(other, party) for other in asked])


async def join(me: SimPlayer, party: str, times: int = 1) -> None:
    """Accept an invite into the party, perhaps twice at once, and look whether it counts."""
    alone, moves, sitting = not me.moving, me.moves + times, me.sitting
    answers = []

    async def once() -> None:
        answers.append(await me.move(*requests.accept(party)))

    await together(me, [once() for _ in range(times)])
    asked = me.now
    seen = await party_of(me) if me.token else None
    if seen is None or not any(one.status == 200 for one in answers) or not alone:
        return
    if (me.moves, me.sitting) == (moves, sitting) and asked - me.astray_at > PATIENCE_S:
        me.history.parties.joined(me.account, party, str(seen["partyId"]), me.now)


async def accept(me: SimPlayer, dice: random.Random) -> None:
    """Accept the first invite, or decline it."""
    began, issued = me.now, me.issued
    heard = await me.ask("GET", "/party/invites")
    found = heard.json.get("invitations", []) if heard.status == 200 else []
    if heard.status == 200 and not me.is_over(issued):  # to strangers the list is empty
        shown = [one["partyId"] for one in found]
        me.history.invites.shown(me.account, shown, began, me.history.answers.untroubled)
    if not found:
        return
    if len({one["partyId"] for one in found}) != len(found) or len(found) > 10:
        me.history.wrong.add("invites within limits", f"{me.name} has {len(found)} invites")
    one = found[0]
    if dice.random() < 0.8:
        party = one["partyId"]
        await join(me, party, 1 + (dice.random() < 0.2))
    else:
        wish = {"sendingPlayerId": one["sendingPlayerId"], "partyId": one["partyId"]}
        me.history.invites.declining(me.account)
        try:
            await me.ask("DELETE", "/party/invite", wish)
        finally:
            me.history.invites.declining(me.account)  # what came meanwhile may be of the same
        await poll_party(me, dice)


async def leave_party(me: SimPlayer, dice: random.Random) -> None:
    """Leave the party, for one of one's own."""
    await me.move("DELETE", "/party/member")
    await poll_party(me, dice)


async def promote(me: SimPlayer, dice: random.Random) -> None:
    """Make another member the leader."""
    seen = await party_of(me)
    if seen is None:
        return
    others = sorted(one for one in seen["playerIds"] if one != me.account)
    if others and seen["leaderPlayerId"] == me.account:
        may = unless_leading(me, seen, 1)
        await me.move("PUT", f"/party/member/promote/{dice.choice(others)}", may=may)
        await poll_party(me, dice)


async def befriend(me: SimPlayer, dice: random.Random) -> None:
    """Ask for a friendship, or accept one; sometimes end it."""
    other = me.other(dice)
    if other is None:
        return
    low, high = sorted((me.account, other.account))
    pair = low, high
    end = me.history.friends.get(pair) == "friends" and dice.random() < 0.3
    me.history.friends[pair] = "changing"
    act = requests.unfriend if end else requests.befriend
    if not end:
        me.history.befriending[me.account, other.account] = None
    heard = await me.ask(*act(me.account, other.account))
    if heard.status == 204 and end:
        me.history.friends[pair] = "none"
    elif heard.status == 204 and other.token:
        me.history.befriending[other.account, me.account] = None
        back = await other.ask(*requests.befriend(other.account, me.account))
        if back.status == 204:
            me.history.friends[pair] = "friends"

"""The players' actions in parties and with friends."""

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
    """Poll the party, which also shows the host that the client is online."""
    await party_of(me)


async def party_of(me: SimPlayer) -> dict[str, Any] | None:
    """Request and return the party that the player is shown.

    The key ``moves``, which is added to the reply, says how often the player had changed the party
    before the request. It is -1 if this number is unknown.
    """
    moves = -1 if _astray(me) else me.moves
    reply = await me.make_request("POST", "/party", {})
    if reply.status != 200 or "partyId" not in (reply.json or {}):
        return None
    party: dict[str, Any] = reply.json
    party.setdefault("playerIds", [me.account])  # a party of one does not list its member
    party.setdefault("leaderPlayerId", me.account)
    party["moves"] = moves
    me.party = str(party["partyId"])
    members = [str(account) for account in party["playerIds"]]
    me.history.parties.check_poll(me.account, me.party, members, str(party["leaderPlayerId"]))
    return party


def unless_leading(me: SimPlayer, party: dict[str, Any] | None, moves: int = 0) -> May:
    """Return a function that allows 400 and 403, unless the player certainly leads the party.

    ``party`` is the party as shown to the player. The request itself changes the player's party
    ``moves`` times.
    """
    leads, then = False, 0
    if party is not None and party["moves"] >= 0:
        leads, then = party["leaderPlayerId"] == me.account, party["moves"] + moves
    return lambda status: status in (400, 403) and not (leads and me.moves == then)


async def _invite(me: SimPlayer, invited: SimPlayer, shown: dict[str, Any] | None) -> bool:
    """Invite another player into the party; return whether the invite was acknowledged."""
    party, still = me.party, _stays(me, invited)
    call = requests.invite(invited.account, party)
    reply = await me.make_request(*call, may=unless_leading(me, shown))
    if reply.status < 300 and still() and shown is not None and shown["moves"] == me.moves:
        invitation = Invite(party, me.name, invited.name, me.now, still)
        me.history.invites.sent(invited.account, invitation)
    return reply.status < 400


def _stays(*people: SimPlayer) -> Callable[[], bool]:
    """Return a function that checks whether the players stayed online and in their parties."""

    def standing() -> list[tuple[int, int, float]]:
        return [(player.moves, player.sitting, player.shut_out_at) for player in people]

    then, sure = standing(), not any(_astray(player) for player in people)
    return lambda: sure and standing() == then


def _astray(me: SimPlayer) -> bool:
    """Return whether the player is certainly or possibly moving to another party.

    If the owner has ended the player's sessions, the metagame removes the player from the party as
    soon as it notices this.
    """
    return me.moving > 0 or me.now - me.astray_at <= PATIENCE_S or me.is_over(me.now)


async def invite(me: SimPlayer, dice: random.Random) -> None:
    """Invite a random player into the party."""
    invited = me.choose_peer(dice)
    if invited is not None:
        await _invite(me, invited, await party_of(me))
        if dice.random() < 0.6 and invited.token and not invited.busy:
            await invited.run_action("accept", dice)


async def gather(me: SimPlayer, dice: random.Random) -> None:
    """Invite more players than a party has seats; the invited players accept concurrently."""
    shown, party = await party_of(me), me.party
    if not party:  # quit meanwhile, or the host is away
        return
    there = [
        player for player in me.everybody if player is not me and player.token and not player.busy
    ]
    invited = []
    for player in dice.sample(there, min(5, len(there))):
        if await _invite(me, player, shown) and player.token:
            invited.append(player)
    await together(me, [join(second, party) for second in invited])


async def join(me: SimPlayer, party: str, times: int = 1) -> None:
    """Accept a party invite in ``times`` concurrent requests, and check that the party is shown."""
    alone, moves, sitting = not me.moving, me.moves + times, me.sitting
    answers = []

    async def once() -> None:
        answers.append(await me.move(*requests.accept(party)))

    await together(me, [once() for _ in range(times)])
    asked_at = me.now
    shown = await party_of(me) if me.token else None
    if shown is None or not any(answer.status == 200 for answer in answers) or not alone:
        return
    if (me.moves, me.sitting) == (moves, sitting) and asked_at - me.astray_at > PATIENCE_S:
        me.history.parties.joined(me.account, party, str(shown["partyId"]), me.now)


async def accept(me: SimPlayer, dice: random.Random) -> None:
    """Accept or decline the first invite."""
    began, issued = me.now, me.issued
    reply = await me.make_request("GET", "/party/invites")
    invites = reply.json.get("invitations", []) if reply.status == 200 else []
    if reply.status == 200 and not me.is_over(issued):  # to strangers the list is empty
        shown = [invite["partyId"] for invite in invites]
        me.history.invites.shown(me.account, shown, began, me.history.answers.untroubled)
    if not invites:
        return
    if len({invite["partyId"] for invite in invites}) != len(invites) or len(invites) > 10:
        me.history.wrong.add("invites within limits", f"{me.name} has {len(invites)} invites")
    invite = invites[0]
    if dice.random() < 0.8:
        party = invite["partyId"]
        await join(me, party, 1 + (dice.random() < 0.2))
    else:
        body = {"sendingPlayerId": invite["sendingPlayerId"], "partyId": invite["partyId"]}
        me.history.invites.declining(me.account)
        try:
            await me.make_request("DELETE", "/party/invite", body)
        finally:
            me.history.invites.declining(me.account)  # new invites may have the same sender
        await poll_party(me, dice)


async def leave_party(me: SimPlayer, dice: random.Random) -> None:
    """Leave the party; the player then has a party of one."""
    await me.move("DELETE", "/party/member")
    await poll_party(me, dice)


async def promote(me: SimPlayer, dice: random.Random) -> None:
    """Make another member the leader."""
    shown = await party_of(me)
    if shown is None:
        return
    others = sorted(account for account in shown["playerIds"] if account != me.account)
    if others and shown["leaderPlayerId"] == me.account:
        may = unless_leading(me, shown, 1)
        await me.move("PUT", f"/party/member/promote/{dice.choice(others)}", may=may)
        await poll_party(me, dice)


async def befriend(me: SimPlayer, dice: random.Random) -> None:
    """Request or accept a friendship; sometimes end a friendship."""
    friend = me.choose_peer(dice)
    if friend is None:
        return
    low, high = sorted((me.account, friend.account))
    pair = low, high
    end = me.history.friends.get(pair) == "friends" and dice.random() < 0.3
    me.history.friends[pair] = "changing"
    act = requests.unfriend if end else requests.befriend
    if not end:
        me.history.befriending[me.account, friend.account] = None
    reply = await me.make_request(*act(me.account, friend.account))
    if reply.status == 204 and end:
        me.history.friends[pair] = "none"
    elif reply.status == 204 and friend.token:
        me.history.befriending[friend.account, me.account] = None
        back = await friend.make_request(*requests.befriend(friend.account, me.account))
        if back.status == 204:
            me.history.friends[pair] = "friends"

"""What players look at besides: friends, progress, slayer links, and the host's status."""

from __future__ import annotations

import random

from simulation import links
from simulation.downloads import ACCOUNT_KEY
from simulation.player import SEASON, SimPlayer
from svcserver.players.requests import FRIENDS


async def taken_in(me: SimPlayer) -> None:
    """The rest of a log-in: the token is the player's own, and the queue lets them in."""
    token, issued = me.token, me.issued
    heard = await me.ask("GET", "/account/api/oauth/verify", patient=True)
    same = me.token == token and not me.is_over(issued)
    if heard.status == 200 and same and heard.json.get("account_id") != me.account:
        told = f"{me.name}'s token is that of {heard.json.get('account_id')}"
        me.history.wrong.add("one account a name", told)
    wish = {"email": me.account, "env": "prod", "lang": "en"}
    heard = await me.ask("POST", "/login", wish, patient=True)
    if heard.status == 200 and heard.json.get("state") != "OPEN":
        me.history.wrong.add("refused for nothing", f"{me.name} is not let in: {heard.json}")


async def glance(me: SimPlayer, dice: random.Random) -> None:
    """Look at one of them."""
    await dice.choice((friends, progress, slayers, status))(me)


async def friends(me: SimPlayer) -> None:
    """The friends list has everybody who surely is a friend."""
    began, issued = me.now, me.issued
    for _ in range(2):  # somebody may end a friendship, and begin it again, while the list comes
        before = _sure(me)
        heard = await me.ask("GET", f"{FRIENDS}/{me.account}?includePending=true")
        if heard.status != 200 or me.is_over(issued):  # to strangers the list is empty
            return
        listed = {one["accountId"] for one in heard.json if one["status"] == "ACCEPTED"}
        lacking = [one for one in before if one not in listed and one in _sure(me)]
        if not lacking:
            return
    if me.token and me.history.answers.untroubled(began):
        told = f"{me.name} is not shown the friend {lacking[0]}"
        me.history.wrong.add("acknowledged means present", told)


def _sure(me: SimPlayer) -> list[str]:
    """The accounts of those whom the player surely has as a friend."""
    found = []
    for pair, known in me.history.friends.items():
        if known == "friends" and me.account in pair:
            found.append(pair[pair[0] == me.account])
    return found


async def progress(me: SimPlayer) -> None:
    """Experience: at least what was acknowledged before it was asked for."""
    account, least = me.account, me.history.grants.least[me.account]
    heard = await me.ask("GET", f"/progression/{account}")
    if heard.status != 200:
        return
    tracks = {one["progression_id"]: one["progress"] for one in heard.json["payload"]}
    if tracks.get(SEASON, 0) < least:
        told = f"{account}: {tracks.get(SEASON, 0)}, and {least} were acknowledged"
        me.history.wrong.add("acknowledged means present", told)


async def slayers(me: SimPlayer) -> None:
    """Slayer links and the invites to them, each asked for alone."""
    heard = await me.ask("GET", "/slayerlink/links")
    if heard.status == 200:
        links.seen(me, heard.json["payload"]["links"])
    heard = await me.ask("GET", "/slayerlink/invites")
    if heard.status == 200:
        links.invited(me, heard.json["payload"]["invites"])


async def status(me: SimPlayer) -> None:
    """The host's status, as a registered caller is shown it."""
    heard = await me.ask("GET", "/svc/api/ServerStatus", headers={ACCOUNT_KEY: me.key})
    if heard.status == 200 and (heard.json["limited"] or not heard.json["online"]):
        me.history.wrong.add("refused for nothing", f"{me.name} is shown the status of strangers")

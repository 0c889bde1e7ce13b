"""The players' actions around logging in, logging off and hunting, and a table of all actions."""

import random

from simulation.answers import SETTLES_S
from simulation.belongings import (
    check_balance,
    earn,
    earn_and_hang_up,
    earn_twice,
    load,
    save,
    save_and_hang_up,
    save_twice,
)
from simulation.chat import chat_in, speak
from simulation.client import Client
from simulation.downloads import download
from simulation.gear import arm, armed, craft, hone, repair, salvage, shop
from simulation.glances import glance, taken_in
from simulation.guilds import guild
from simulation.history import MATCH_S
from simulation.hunting import bounty, choose_pass, earned, granted, loot, unlock
from simulation.links import link
from simulation.player import ACTS, POLL_S, Act, SimPlayer, Stopped
from simulation.social import (
    accept,
    befriend,
    gather,
    invite,
    leave_party,
    party_of,
    poll_party,
    promote,
    unless_leading,
)
from svcserver.players import requests
from svcserver.players.http import NoAnswer
from svcserver.players.requests import HUNTS


async def register(me: SimPlayer) -> bool:
    """Register an account; after a conflict or a lost reply, the next try uses another name."""
    if me.registering:
        return False
    me.registering, name = True, me.name
    me.history.unsure_names.add(name)
    try:
        reply = await me.make_request(*requests.register(name, me.invite))
        if reply.status == 200:
            me.key = str(reply.json["UUK"])
            return True
        if reply.status < 500:
            me.history.unsure_names.discard(name)
    except NoAnswer:
        reply = None
    finally:
        me.registering = False
    if reply is None or reply.status in (409, 502, 503, 504):
        me.tries += 1
        me.name = f"{name.partition('__')[0]}__{me.tries}"
    return False


async def log_in(me: SimPlayer, dice: random.Random) -> None:
    """Log in as the game does when it starts, on a PC that may have been off."""
    if me.process.dead:
        requests_sent, me.process = me.web.sent_count, me.switch_on()
        me.web = Client(me.process, sent_count=requests_sent)
    if not me.key and not await register(me):
        return
    began = me.now
    reply = await me.make_request(*requests.log_in(me.key), patient=True)
    if reply.status != 200:
        return
    me.sitting += 1
    me.place = None  # a freshly started game is on no game server
    me.issued = began  # or a little later: the reply may have been slow
    me.token, me.account = str(reply.json["access_token"]), str(reply.json["account_id"])
    known = me.history.registered.setdefault(me.name, me.account)
    if known != me.account:
        me.history.wrong.add("one account a name", f"{me.name} is {known} and {me.account}")
    me.web.headers["Authorization"] = f"Bearer {me.token}"
    await taken_in(me)
    await me.move("DELETE", "/party/member", patient=True)
    await load(me, dice)
    await poll_party(me, dice)
    me.where = "city"
    if dice.random() < 0.7:
        await chat_in(me, dice)


async def logged_off(me: SimPlayer, dice: random.Random) -> None:
    """End this player's sessions in the database, as the owner does with ``svcctl``."""
    old, account = me.token, me.account
    me.shut_out_at = me.now
    me.servers.end_sessions(account, int(me.now) + 1)
    await me.pause(3.0)
    headers = {"Authorization": f"Bearer {old}"}

    def may(status: int) -> bool:
        return status == 401  # also if the player has a new token by now

    reply = await me.make_request("GET", "/party/invites", headers=headers, may=may)
    known = await me.make_request("GET", "/character", headers=headers, may=may)
    well = me.history.answers.untroubled(me.shut_out_at, me.name)
    if known.status == 200 and reply.status == 200 and well:
        me.history.wrong.add(
            "what was ended is ended", f"the old token of {me.name} is still accepted"
        )
    if me.token == old:
        await quit(me, dice)


async def quit(me: SimPlayer, dice: random.Random) -> None:
    """Switch off the PC: all connections end, even during a request."""
    me.switched_off()
    me.process.die()


async def heartbeat(me: SimPlayer, dice: random.Random) -> None:
    """Send a heartbeat with the player's current place."""
    at = me.city if me.where == "city" else f"/Game/Maps/islands/{me.where}"
    await me.make_request(*requests.heartbeat(at))
    me.ping_game_server()


async def hunt(me: SimPlayer, dice: random.Random) -> None:
    """Request a game server, wait for it, play, and return to the city."""
    party = await party_of(me)
    if party is not None and party["leaderPlayerId"] != me.account and party.get("candidateId"):
        call = requests.follow(party["candidateId"])
        hunt_id = str(party.get("playerHuntId") or "hunt")
    else:
        hunt_id = dice.choice(HUNTS)
        call = requests.join("ISLAND", hunt_id)
    reply = await me.make_request(*call, may=unless_leading(me, party))
    if reply.status != 200:
        return
    if dice.random() < 0.1:
        await me.make_request("DELETE", "/candidate")
        return
    if await matched(me, hunt_id):
        await play(me, dice)


async def matched(me: SimPlayer, hunt_id: str) -> bool:
    """Poll until the player has a game server; return False if the match has failed."""
    sitting, began, waiting = me.sitting, me.now, me.history.waiting
    number = waiting.began(f"{me.name} waits for a game server", me.now, MATCH_S)
    try:
        while True:
            issued = me.issued
            reply = await me.make_request("GET", "/candidate/status")
            candidate = reply.json if reply.status == 200 else {}
            if candidate.get("status") == "IN_PROGRESS":
                if sitting != me.sitting:  # the game was restarted meanwhile
                    raise Stopped
                info = candidate["serverInfo"]
                me.place, me.where = me.servers.at(int(info["port"]), info["host"]), hunt_id
                return True
            well = me.history.answers.untroubled(began - SETTLES_S)
            if candidate.get("status") == "FAILED" and well:
                me.history.wrong.add("a game server for each", f"{me.name} gets the status FAILED")
            if reply.status == 404 or candidate.get("status") == "FAILED":
                return False
            is_out = reply.status == 401 and me.is_over(issued)  # the game keeps asking
            if is_out or me.servers.holds_up(me.account):
                waiting.restart(number, me.now, MATCH_S)
            await me.pause(POLL_S)
    finally:
        waiting.ended(number)


async def play(me: SimPlayer, dice: random.Random) -> None:
    """Send datagrams to the game server, earn rewards, and leave, or crash in the middle."""
    for _ in range(6):
        if me.place is None or me.ping_game_server():
            break
        await heartbeat(me, dice)
        await me.pause(4.0)
    for _ in range(dice.randrange(1, 4)):
        await me.pause(dice.uniform(10.0, 40.0))
        await granted(me, dice)
        await dice.choice((loot, loot, bounty, choose_pass, unlock, earn))(me, dice)
        await heartbeat(me, dice)
    if me.place is not None and dice.random() < 0.9:
        me.ping_game_server(goodbye=True)
    me.place, me.where = None, "city"
    reply = await me.make_request(*requests.join("CITY"), may=lambda status: status == 400)
    if reply.status == 200 and await matched(me, "city"):
        me.place, me.where = None, "city"


_ACTS: dict[str, Act] = {
    "log_in": log_in,
    "quit": quit,
    "logged_off": logged_off,
    "heartbeat": heartbeat,
    "load": load,
    "save": save,
    "save_and_hang_up": save_and_hang_up,
    "save_twice": save_twice,
    "earn": earn,
    "earn_twice": earn_twice,
    "earn_and_hang_up": earn_and_hang_up,
    "look": check_balance,
    "granted": granted,
    "poll_party": poll_party,
    "invite": invite,
    "gather": gather,
    "accept": accept,
    "leave_party": leave_party,
    "promote": promote,
    "befriend": befriend,
    "guild": guild,
    "hunt": hunt,
    "chat_in": chat_in,
    "speak": speak,
    "loot": loot,
    "bounty": bounty,
    "choose_pass": choose_pass,
    "unlock": unlock,
    "earned": earned,
    "craft": craft,
    "repair": repair,
    "hone": hone,
    "salvage": salvage,
    "arm": arm,
    "armed": armed,
    "shop": shop,
    "link": link,
    "download": download,
    "glance": glance,
}
ACTS.update(_ACTS)
WEIGHTS: dict[str, int] = {
    "log_in": 2,
    "quit": 3,
    "logged_off": 1,
    "heartbeat": 14,
    "load": 4,
    "save": 10,
    "save_and_hang_up": 2,
    "save_twice": 2,
    "earn": 8,
    "earn_twice": 3,
    "earn_and_hang_up": 2,
    "look": 4,
    "granted": 2,
    "poll_party": 12,
    "invite": 6,
    "gather": 1,
    "accept": 5,
    "leave_party": 2,
    "promote": 2,
    "befriend": 4,
    "guild": 4,
    "hunt": 4,
    "chat_in": 2,
    "speak": 9,
    "loot": 2,
    "bounty": 1,
    "choose_pass": 1,
    "unlock": 1,
    "earned": 2,
    "craft": 2,
    "repair": 3,
    "hone": 2,
    "salvage": 1,
    "arm": 3,
    "armed": 2,
    "shop": 2,
    "link": 3,
    "download": 1,
    "glance": 5,
}

"""The request of each act: method, path and body, for the ``ask`` of any client."""

from __future__ import annotations

from typing import Any

from svcserver.players.http import Form

Call = tuple[str, str, Any]
BUILD = "239827_rel-1.4.4_shipping"
HUNTS = (
    "CR19_PlayerHunt_Patrol_Flame",
    "CR19_PlayerHunt_FTUE_Pursuit_Rock",
    "CR19_PlayerHunt_Patrol_Alpha_Gem",
)
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal")  # of players; made up
FRIENDS = "/friends/api/public/friends"
LINK_INVITE = "/slayerlink/invite"


# -- coming ----------------------------------------------------------------------


def register(name: str, invite: str | None = None) -> Call:
    """Ask for an account."""
    more = {} if invite is None else {"InviteCode": invite}
    return "POST", "/svc/api/Register", {"Username": name, **more}


def log_in(key: str) -> Call:
    """Exchange an account key for a token."""
    form = Form(grant_type="exchange_code", exchange_code=key, token_type="eg1")  # noqa: S106
    return "POST", "/account/api/oauth/token", form


def heartbeat(where: str, state: str = "") -> Call:
    """Report the map that the player is on."""
    return "POST", "/heartbeat", {"map": where, "state": state}


# -- belongings --------------------------------------------------------------------


def save(character: str, version: int, data: str) -> Call:
    """Save the character's document."""
    body = {"characterId": character, "data": data, "updateVersion": version}
    return "POST", "/character", body


def inventory(account: str, character: str) -> Call:
    """Read the inventory."""
    return "GET", f"/inventory/{account}/{character}", None


def transact(character: str, number: str, source: str, **lists: Any) -> Call:
    """Change the inventory; ``lists`` are what is added, removed and saved."""
    body = {"characterId": character, "transactionId": number, "source": source, **lists}
    return "POST", "/inventory", body


def stack(item: str, quantity: int) -> dict[str, Any]:
    """Return an element of ``transact``."""
    return {"catalogId": item, "quantity": quantity}


def thing(catalog_id: str, instance: str, version: int, data: str | None) -> dict[str, Any]:
    """Return an instanced item as the client sends it."""
    return {
        "catalogId": catalog_id,
        "instanceId": instance,
        "itemData": data,
        "updateVersion": version,
    }


def loadout(account: str, character: str, rest: str, sent: Any = None) -> Call:
    """Write a part of the loadout."""
    return "POST", f"/loadout/{account}/{character}/{rest}", sent


def buy(token: str) -> Call:
    """Buy the offer that the purchase token is for."""
    return "POST", f"/notification/platinum?token={token}", {}


# -- hunts ---------------------------------------------------------------------------


def join(mode: str, hunt: str = "", arguments: str = "") -> Call:
    """Ask for a game server."""
    body = {"gameMode": mode, "gameArgs": arguments, "playerHuntId": hunt, "buildId": BUILD}
    return "POST", "/candidate/join", body


def follow(candidate: str) -> Call:
    """Join the hunt that the party's leader asked for."""
    return "POST", f"/candidate/join/{candidate}", {"buildId": BUILD}


def grant(account: str, track: str, amount: int, objective: str, value: int) -> Call:
    """Grant experience and an objective, by a game server."""
    body = {
        "progress_tracks": [{"progression_id": track, "progress": amount}],
        "objectives": [{"objective_id": objective, "value": value, "completed_count": 0}],
    }
    return "POST", f"/progression/{account}", body


def bounty(account: str, element: dict[str, Any]) -> Call:
    """Write a bounty, by a game server."""
    return "POST", f"/bounty/{account}", {"bounties": [element]}


def choose_pass(account: str, progression_id: str) -> Call:
    """Choose a hunt pass, by a game server."""
    return "POST", f"/huntpass/{account}", {"progression_id": progression_id}


# -- other players ---------------------------------------------------------------------


def invite(account: str, party: str) -> Call:
    """Invite a player into the party."""
    return "PUT", "/party/invite", {"recipientPlayerId": account, "partyId": party}


def accept(party: str) -> Call:
    """Accept the invite into a party."""
    return "PUT", f"/party/invite/accept/{party}", {"partyId": party}


def befriend(account: str, friend: str) -> Call:
    """Ask for a friendship, or accept one."""
    return "POST", f"{FRIENDS}/{account}/{friend}", None


def unfriend(account: str, friend: str) -> Call:
    """End a friendship."""
    return "DELETE", f"{FRIENDS}/{account}/{friend}", None


def invite_to_link(account: str, slot: int) -> Call:
    """Invite a friend to a slayer link."""
    body = {"account_id": account, "slot": slot, "action_source": "social_panel"}
    return "PUT", LINK_INVITE, body


def answer_link(account: str, action: str, **more: Any) -> Call:
    """Accept or reject the invite to a slayer link."""
    return "POST", LINK_INVITE, {"account_id": account, "action": action, **more}


def check_guild(name: str) -> Call:
    """Have the name of a guild checked."""
    return "POST", "/guild/validate", {"name": name, "nameplate": ""}


def found_guild(leader: str, name: str) -> Call:
    """Found a guild, by a game server."""
    return "POST", "/guild", {"leader_account_id": leader, "name": name, "nameplate": ""}


def invite_to_guild(account: str) -> Call:
    """Invite a player into the guild."""
    return "PUT", f"/guild/invite/{account}", {}


def accept_guild(invite_id: str) -> Call:
    """Accept the invite into a guild."""
    return "POST", f"/guild/invite/accept/{invite_id}", {}

"""The requests of the game's client: each function returns the method, path and body."""

from typing import Any

from svcserver.players.http import Form

Call = tuple[str, str, Any]
BUILD = "239827_rel-1.4.4_shipping"
HUNTS = (
    "CR19_PlayerHunt_Patrol_Flame",
    "CR19_PlayerHunt_FTUE_Pursuit_Rock",
    "CR19_PlayerHunt_Patrol_Alpha_Gem",
)
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal")  # invented player names
FRIENDS = "/friends/api/public/friends"
LINK_INVITE = "/slayerlink/invite"


# -- log-in ----------------------------------------------------------------------


def register(name: str, invite: str | None = None) -> Call:
    """Return the request that creates an account."""
    more = {} if invite is None else {"InviteCode": invite}
    return "POST", "/svc/api/Register", {"Username": name, **more}


def log_in(key: str) -> Call:
    """Return the request that exchanges an account key for a token."""
    form = Form(grant_type="exchange_code", exchange_code=key, token_type="eg1")  # noqa: S106
    return "POST", "/account/api/oauth/token", form


def heartbeat(where: str, state: str = "") -> Call:
    """Return the request that reports which map the player is on."""
    return "POST", "/heartbeat", {"map": where, "state": state}


# -- belongings --------------------------------------------------------------------


def save(character: str, version: int, data: str) -> Call:
    """Return the request that saves the character's document."""
    body = {"characterId": character, "data": data, "updateVersion": version}
    return "POST", "/character", body


def inventory(account: str, character: str) -> Call:
    """Return the request that reads the inventory."""
    return "GET", f"/inventory/{account}/{character}", None


def transact(character: str, number: str, source: str, **lists: Any) -> Call:
    """Return the request that changes the inventory; ``lists`` are the items to change."""
    body = {"characterId": character, "transactionId": number, "source": source, **lists}
    return "POST", "/inventory", body


def stack(item: str, quantity: int) -> dict[str, Any]:
    """Return a stack of items, for the lists that ``transact`` takes."""
    return {"catalogId": item, "quantity": quantity}


def thing(catalog_id: str, instance: str, version: int, data: str | None) -> dict[str, Any]:
    """Return an item that has its own instance id, in the client's format."""
    return {
        "catalogId": catalog_id,
        "instanceId": instance,
        "itemData": data,
        "updateVersion": version,
    }


def loadout(account: str, character: str, rest: str, sent: Any = None) -> Call:
    """Return the request that writes the part of the loadout at the path ``rest``."""
    return "POST", f"/loadout/{account}/{character}/{rest}", sent


def buy(token: str) -> Call:
    """Return the request that buys an offer with the offer's purchase token."""
    return "POST", f"/notification/platinum?token={token}", {}


# -- hunts ---------------------------------------------------------------------------


def join(mode: str, hunt: str = "", arguments: str = "") -> Call:
    """Return the request for a place on a game server."""
    body = {"gameMode": mode, "gameArgs": arguments, "playerHuntId": hunt, "buildId": BUILD}
    return "POST", "/candidate/join", body


def follow(candidate: str) -> Call:
    """Return the request that joins the hunt which the party leader requested."""
    return "POST", f"/candidate/join/{candidate}", {"buildId": BUILD}


def grant(account: str, track: str, amount: int, objective: str, value: int) -> Call:
    """Return a game server's request that grants experience and sets an objective's value."""
    body = {
        "progress_tracks": [{"progression_id": track, "progress": amount}],
        "objectives": [{"objective_id": objective, "value": value, "completed_count": 0}],
    }
    return "POST", f"/progression/{account}", body


def bounty(account: str, element: dict[str, Any]) -> Call:
    """Return a game server's request that writes a bounty."""
    return "POST", f"/bounty/{account}", {"bounties": [element]}


def choose_pass(account: str, progression_id: str) -> Call:
    """Return a game server's request that chooses a hunt pass."""
    return "POST", f"/huntpass/{account}", {"progression_id": progression_id}


# -- other players ---------------------------------------------------------------------


def invite(account: str, party: str) -> Call:
    """Return the request that invites a player into the party."""
    return "PUT", "/party/invite", {"recipientPlayerId": account, "partyId": party}


def accept(party: str) -> Call:
    """Return the request that accepts an invite into a party."""
    return "PUT", f"/party/invite/accept/{party}", {"partyId": party}


def befriend(account: str, friend: str) -> Call:
    """Return the request that offers or accepts a friendship."""
    return "POST", f"{FRIENDS}/{account}/{friend}", None


def unfriend(account: str, friend: str) -> Call:
    """Return the request that ends a friendship."""
    return "DELETE", f"{FRIENDS}/{account}/{friend}", None


def invite_to_link(account: str, slot: int) -> Call:
    """Return the request that invites a friend to a slayer link."""
    body = {"account_id": account, "slot": slot, "action_source": "social_panel"}
    return "PUT", LINK_INVITE, body


def answer_link(account: str, action: str, **more: Any) -> Call:
    """Return the request that accepts or rejects an invite to a slayer link."""
    return "POST", LINK_INVITE, {"account_id": account, "action": action, **more}


def check_guild(name: str) -> Call:
    """Return the request that checks whether a guild name is allowed."""
    return "POST", "/guild/validate", {"name": name, "nameplate": ""}


def found_guild(leader: str, name: str) -> Call:
    """Return a game server's request that founds a guild."""
    return "POST", "/guild", {"leader_account_id": leader, "name": name, "nameplate": ""}


def invite_to_guild(account: str) -> Call:
    """Return the request that invites a player into the guild."""
    return "PUT", f"/guild/invite/{account}", {}


def accept_guild(invite_id: str) -> Call:
    """Return the request that accepts an invite into a guild."""
    return "POST", f"/guild/invite/accept/{invite_id}", {}

"""The player's account on a host: registration, log-in by key, and their error texts."""

import re

from attrs import field, frozen

from svcserver.kernel.secrets import Secret, hex_token
from svcserver.launcher import words
from svcserver.launcher.host_client import HostClient, HostReply, NoReply

NAME = re.compile(r"[A-Za-z0-9_]{3,16}\Z")
KEY = re.compile(r"[\x21-\x7e]{8,256}\Z")


class Refused(Exception):
    """The error when the host refuses a request; its text is for the player."""


class KeyUnknown(Refused):
    """The error when the host does not know the key, or has banned the account."""


@frozen
class HostAccount:
    """The player's account on a host."""

    username: str
    id: str
    key: Secret = field(repr=False)


_REFUSALS = {
    "registration_closed": words.CLOSED,
    "username_invalid": words.NAME_INVALID,
    "invite_invalid": words.INVITE_INVALID,
    "username_taken": words.NAME_TAKEN,
}
_INVITE_STATES = {
    "valid": "",
    "used_up": words.INVITE_USED_UP,
    "expired": words.INVITE_EXPIRED,
    "unknown": words.INVITE_UNKNOWN,
}


def explain_no_reply(error: NoReply) -> str:
    """Return the text to show the player when the host sent no complete reply."""
    if error.code == "certificate_mismatch":
        return words.WRONG_CERTIFICATE
    return words.NOT_OUR_HOST if error.code == "answer" else words.UNREACHABLE


def general(reply: HostReply) -> str:
    """Return the text to show the player for errors that are common to all requests."""
    if reply.status == 429:
        return words.TOO_OFTEN.format(minutes=words.duration(reply.retry_after_s or 60))
    if reply.status == 503 and reply.error != "upstream_restarting":
        return words.FULL
    if reply.status in (502, 503, 504):
        return words.RESTARTING
    return words.NOT_OUR_HOST


async def register(client: HostClient, name: str, code: str) -> HostAccount:
    """Register a new account, or raise Refused."""
    body = {"Username": name, "InviteCode": code}
    try:
        reply = await client.fetch_reply("POST", "/svc/api/Register", json_body=body)
    except NoReply as error:
        sent = error.code == "upstream_unreachable" and error.after_sending
        raise Refused(words.REGISTER_LOST if sent else explain_no_reply(error)) from error
    key = reply.fields.get("UUK")
    if reply.status == 200 and isinstance(key, str) and KEY.match(key):
        return HostAccount(name, "", Secret(key))
    raise Refused(_REFUSALS.get(reply.error) or general(reply))


async def recognise(client: HostClient, key: Secret) -> HostAccount:
    """Return the account that a key belongs to.

    Raises KeyUnknown if the host rejects the key, and Refused for any other failure.
    """
    try:
        reply = await client.fetch_reply("GET", "/svc/api/GetUserInfo", key=key)
    except NoReply as error:
        raise Refused(explain_no_reply(error)) from error
    name = reply.fields.get("Username")
    if reply.status == 200 and isinstance(name, str) and NAME.match(name):
        return HostAccount(name, str(reply.fields.get("UserId", "")), key)
    if reply.status == 403:
        raise KeyUnknown(words.BANNED)
    if reply.status == 401:
        raise KeyUnknown(words.KEY_REFUSED)
    raise Refused(general(reply))


def new_key() -> Secret:
    """Return a new random account key in the hosts' format."""
    return Secret(f"UUK_{hex_token(48)}")


async def renew(client: HostClient, old: Secret, new: Secret) -> None:
    """Replace the key ``old`` with ``new`` on the host, or raise Refused.

    The launcher makes the new key, and saves both keys until it knows which one is valid. So a
    lost reply does not lose the account.
    """
    try:
        reply = await client.fetch_reply(
            "POST", "/launcher/new-key", key=old, json_body={"UUK": new.reveal()}
        )
    except NoReply as error:
        raise Refused(explain_no_reply(error)) from error
    if reply.status == 404:
        raise Refused(words.KEY_NOT_RENEWED)
    if reply.status != 200:
        raise Refused(general(reply))


async def is_taken(client: HostClient, key: Secret) -> bool:
    """Return True if the host accepts ``key``; False if it rejects the key or sends no reply."""
    try:
        await recognise(client, key)
    except Refused:
        return False
    return True


async def invite_state(client: HostClient, code: str) -> str | None:
    """Return an error text about an invite's code; "" if valid, None if the host did not say.

    The result is also "" if the host is too old to check codes.
    """
    try:
        reply = await client.fetch_reply("POST", "/launcher/invite", json_body={"InviteCode": code})
    except NoReply:
        return None
    if reply.status == 404:
        return ""
    if reply.status == 200:
        return _INVITE_STATES.get(str(reply.fields.get("invite")))
    return words.CLOSED if reply.error == "registration_closed" else None


async def ask_for(client: HostClient, name: str, code: str, *, public: bool) -> str:
    """Return a text that tells the player whether ``name`` is free.

    A public host answers players without a usable invite only a few times, so that strangers cannot
    list the names. A private host always answers. If the host gives no answer, the text says so;
    the name is then checked at registration.
    """
    try:
        if public:
            body = {"Username": name, "InviteCode": code}
            reply = await client.fetch_reply("POST", "/launcher/name-free", json_body=body)
        else:
            reply = await client.fetch_reply("GET", f"/svc/api/UsernameAvailable?Username={name}")
    except NoReply:
        return words.NAME_UNTOLD
    free = reply.fields.get("available") if reply.status == 200 else None
    if free is True:
        return words.NAME_FREE
    return _REFUSALS.get(reply.error, words.NAME_UNTOLD) if free is False else words.NAME_UNTOLD

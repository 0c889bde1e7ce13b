"""The player's account on a host: made, recognised, and every refusal in the player's words."""

from __future__ import annotations

import re

from attrs import field, frozen

from svcserver.kernel.secrets import Secret, hex_token
from svcserver.launcher import words
from svcserver.launcher.asking import HostClient, Lost, Reply

NAME = re.compile(r"[A-Za-z0-9_]{3,16}\Z")
KEY = re.compile(r"[\x21-\x7e]{8,256}\Z")


class Refused(Exception):
    """The host said no; the text is for the player."""


class KeyUnknown(Refused):
    """The host does not know the key, or has shut the account out."""


@frozen
class Account:
    """Who the player is on a host."""

    username: str
    id: str
    key: Secret = field(repr=False)


_REFUSALS = {
    "registration_closed": words.CLOSED,
    "username_invalid": words.NAME_INVALID,
    "invite_invalid": words.INVITE_INVALID,
    "username_taken": words.NAME_TAKEN,
}


def lost(why: Lost) -> str:
    """The sentence for an answer that did not come."""
    if why.code == "certificate_mismatch":
        return words.WRONG_CERTIFICATE
    return words.NOT_OUR_HOST if why.code == "answer" else words.UNREACHABLE


def general(reply: Reply) -> str:
    """The sentence for an answer that any request may get."""
    if reply.status == 429:
        return words.TOO_OFTEN.format(minutes=words.duration(reply.retry_after_s or 60))
    if reply.status == 503 and reply.error != "upstream_restarting":
        return words.FULL
    if reply.status in (502, 503, 504):
        return words.RESTARTING
    return words.NOT_OUR_HOST


async def register(client: HostClient, name: str, code: str) -> Account:
    """A new account; raises Refused."""
    body = {"Username": name, "InviteCode": code}
    try:
        reply = await client.ask("POST", "/svc/api/Register", json_body=body)
    except Lost as why:
        sent = why.code == "upstream_unreachable" and why.after_sending
        raise Refused(words.REGISTER_LOST if sent else lost(why)) from why
    said = reply.json
    key = said.get("UUK") if isinstance(said, dict) else None
    if reply.status == 200 and isinstance(key, str) and KEY.match(key):
        return Account(name, "", Secret(key))
    raise Refused(_REFUSALS.get(reply.error) or general(reply))


async def recognise(client: HostClient, key: Secret) -> Account:
    """Whose key it is; raises Refused, KeyUnknown where the host does not take the key."""
    try:
        reply = await client.ask("GET", "/svc/api/GetUserInfo", key=key)
    except Lost as why:
        raise Refused(lost(why)) from why
    said = reply.json
    name = said.get("Username") if isinstance(said, dict) else None
    if reply.status == 200 and isinstance(name, str) and NAME.match(name):
        return Account(name, str(said.get("UserId", "")), key)
    if reply.status == 403:
        raise KeyUnknown(words.BANNED)
    if reply.status == 401:
        raise KeyUnknown(words.KEY_REFUSED)
    raise Refused(general(reply))


def new_key() -> Secret:
    """A key like those that hosts make."""
    return Secret(f"UUK_{hex_token(48)}")


async def renew(client: HostClient, old: Secret, new: Secret) -> None:
    """Have the host take ``new`` in place of ``old``; raises Refused.

    The player's side makes the key, and keeps both until it knows which counts: had the host made
    it, an answer that is lost would take the account with it.
    """
    try:
        reply = await client.ask(
            "POST", "/launcher/new-key", key=old, json_body={"UUK": new.reveal()}
        )
    except Lost as why:
        raise Refused(lost(why)) from why
    if reply.status == 404:
        raise Refused(words.KEY_NOT_RENEWED)
    if reply.status != 200:
        raise Refused(general(reply))


async def is_taken(client: HostClient, key: Secret) -> bool:
    """Whether the host knows ``key``."""
    try:
        await recognise(client, key)
    except Refused:
        return False
    return True


async def ask_for(client: HostClient, name: str, code: str, *, public: bool) -> str:
    """Whether ``name`` can be had, as a sentence.

    A public host tells it to those who have an invite, and no stranger which names there are; a
    private one tells everybody. One that answers something else says it when one registers.
    """
    try:
        if public:
            body = {"Username": name, "InviteCode": code}
            reply = await client.ask("POST", "/launcher/name-free", json_body=body)
        else:
            reply = await client.ask("GET", f"/svc/api/UsernameAvailable?Username={name}")
    except Lost:
        return words.NAME_UNTOLD
    said = reply.json
    free = said.get("available") if reply.status == 200 and isinstance(said, dict) else None
    if free is True:
        return words.NAME_FREE
    return _REFUSALS.get(reply.error, words.NAME_UNTOLD) if free is False else words.NAME_UNTOLD

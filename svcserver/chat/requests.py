"""Translates stanzas into effects. Spec: 2 §4 Chat, §5."""

from __future__ import annotations

from base64 import b64decode

from svcserver.chat import stanza
from svcserver.chat.effects import (
    Announce,
    Effect,
    Join,
    Leave,
    LogIn,
    Refuse,
    Say,
    Whisper,
    Withdraw,
)
from svcserver.chat.names import split_address
from svcserver.chat.stanza import Stanza
from svcserver.chat.status import status_of
from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.secrets import hex_token

MAX_PAYLOAD = 12_000  # base64 characters
MAX_TOKEN = 8_192
MAX_ID = 128
ROOM_HOSTS = ("muc.", "conference.")


# -- before login ----------------------------------------------------------------


def credentials(said: Stanza) -> LogIn | Refuse:
    """Account and token of an ``<auth>``; its authorisation id may repeat the account."""
    if said.get("mechanism") != "PLAIN":
        return Refuse("invalid-mechanism", "bad-mechanism")
    text = said.text.strip()
    bad = Refuse("not-authorized", "bad-format")
    if len(text) > MAX_PAYLOAD:
        return bad
    try:
        authzid, account, token = b64decode(text, validate=True).decode("utf-8").split("\0")
    except ValueError:
        return bad
    same = authzid.partition("@")[0].lower() in ("", account.lower())
    if not same or not is_account_shaped(account) or not 0 < len(token) <= MAX_TOKEN:
        return bad
    return LogIn(account, token)


def legacy_login(said: Stanza) -> str | None:
    """The id of a legacy (jabber:iq:auth) login, which some clients try after a failure."""
    if said.name == "iq" and said.child("query", stanza.LEGACY_AUTH) is not None:
        stanza_id = said.get("id")
        return stanza_id if len(stanza_id) <= MAX_ID else None
    return None


def opening(domain: str) -> str:
    """Our answer to an ``<open>``, which begins a stream (RFC 7395, 3.4); its id is random."""
    return stanza.element(
        "open",
        xmlns=stanza.FRAMING,
        from_=domain,
        id=hex_token(16),
        version="1.0",
        **{"xml:lang": "en"},
    )


def features(*, account: AccountId) -> str:
    """The stream features: log in, or, once that is done, bind."""
    if account:
        offer = stanza.element("bind", xmlns=stanza.BIND)
    else:
        mechanism = stanza.element("mechanism", "PLAIN")
        offer = stanza.element("mechanisms", mechanism, xmlns=stanza.SASL)
    return f'<stream:features xmlns:stream="{stanza.STREAMS}">{offer}</stream:features>'


# -- after bind ------------------------------------------------------------------


def request(said: Stanza) -> Effect | None:
    """The effect of a presence or a message; None for what is not supported."""
    if said.name == "message":
        kind = said.get("type")
        if kind == "groupchat":
            return Say(said)
        return Whisper(said) if kind == "chat" else None
    return _presence(said) if said.name == "presence" else None


def _presence(said: Stanza) -> Effect | None:
    to, kind = said.get("to"), said.get("type")
    if kind == "unavailable":
        return Leave(to) if to else Withdraw()
    if kind:
        return None
    if not to:
        return Announce(status_of(said))
    room_like = split_address(to)[1].lower().startswith(ROOM_HOSTS)
    return Join(to) if room_like or said.child("x", stanza.MUC) is not None else None

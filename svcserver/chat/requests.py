"""The translation of stanzas into effects (actions of the server). Spec: 2 §4 Chat, §5."""

from twisted.words.protocols.jabber import sasl
from twisted.words.xish.domish import Element

from svcserver.chat import stanza
from svcserver.chat.effects import (
    Announce,
    Effect,
    Join,
    Leave,
    LogIn,
    RefuseLogin,
    Say,
    Whisper,
    Withdraw,
    status_of,
)
from svcserver.chat.names import split_address
from svcserver.kernel.ids import AccountId, is_account_shaped
from svcserver.kernel.secrets import hex_token

MAX_PAYLOAD = 12_000  # base64 characters
MAX_TOKEN = 8_192
MAX_ID = 128
ROOM_HOSTS = ("muc.", "conference.")


# -- before login ----------------------------------------------------------------


def credentials(element: Element) -> LogIn | RefuseLogin:
    """Return the log-in that an ``<auth>`` requests, or a refusal.

    The authorisation id must be empty or name the account itself.
    """
    if element.getAttribute("mechanism") != "PLAIN":
        return RefuseLogin("invalid-mechanism", "bad-mechanism")
    text = stanza.content(element).strip()
    bad = RefuseLogin("not-authorized", "bad-format")
    if len(text) > MAX_PAYLOAD:
        return bad
    try:
        authzid, account, token = sasl.fromBase64(text).decode("utf-8").split("\0")
    except (sasl.SASLIncorrectEncodingError, ValueError):
        return bad
    same = authzid.partition("@")[0].lower() in ("", account.lower())
    if not same or not is_account_shaped(account) or not 0 < len(token) <= MAX_TOKEN:
        return bad
    return LogIn(account, token)


def legacy_login(element: Element) -> str | None:
    """Return the stanza id of a jabber:iq:auth log-in, which some clients try after a failure."""
    if element.name == "iq" and stanza.child(element, "query", stanza.LEGACY_AUTH) is not None:
        stanza_id: str = element.getAttribute("id", "")
        return stanza_id if len(stanza_id) <= MAX_ID else None
    return None


def opening(domain: str) -> Element:
    """Return the reply to an ``<open>``, which starts a stream (RFC 7395, 3.4)."""
    return stanza.element(
        stanza.FRAMING,
        "open",
        from_=domain,
        id=hex_token(16),
        version="1.0",
        **{"xml:lang": "en"},
    )


def features(*, account: AccountId) -> Element:
    """Return the stream features: log-in or, once logged in, resource binding."""
    if account:
        offer = stanza.element(stanza.BIND, "bind")
    else:
        mechanism = stanza.element(None, "mechanism", "PLAIN")
        offer = stanza.element(sasl.NS_XMPP_SASL, "mechanisms", mechanism)
    made = Element((stanza.STREAMS, "features"), localPrefixes={"stream": stanza.STREAMS})
    made.addChild(offer)
    return made


# -- after bind ------------------------------------------------------------------


def request(element: Element) -> Effect | None:
    """Return the effect of a presence or message stanza, or None for an unsupported stanza."""
    if element.name == "message":
        kind = element.getAttribute("type")
        if kind == "groupchat":
            return Say(element)
        return Whisper(element) if kind == "chat" else None
    return _presence(element) if element.name == "presence" else None


def _presence(element: Element) -> Effect | None:
    to, kind = element.getAttribute("to", ""), element.getAttribute("type")
    if kind == "unavailable":
        return Leave(to) if to else Withdraw()
    if kind:
        return None
    if not to:
        return Announce(status_of(element))
    room_like = split_address(to)[1].lower().startswith(ROOM_HOSTS)
    return Join(to) if room_like or stanza.child(element, "x", stanza.MUC) is not None else None

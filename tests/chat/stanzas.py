"""The stanzas that tests expect from the server."""

from twisted.trial.unittest import SynchronousTestCase

from tests.chat.fixture import DOMAIN, ChatFixture, Client

CITY = f"City-1@muc.{DOMAIN}"


def occupant(
    of: Client, to: Client, *, room: str = CITY, codes: str = "", gone: bool = False
) -> str:
    kind, role = (' type="unavailable"', "none") if gone else ("", "participant")
    marks = "".join(f'<status code="{code}"/>' for code in codes.split())
    return (
        f'<presence xmlns="jabber:client"{kind} from="{room}/{of.nick}" to="{to.jid}">'
        f'<x xmlns="http://jabber.org/protocol/muc#user">'
        f'<item affiliation="none" role="{role}" jid="{of.jid}"/>{marks}</x></presence>'
    )


def evicted(of: Client, to: Client, room: str = CITY) -> str:
    return occupant(of, to, room=room, codes="110 307" if of is to else "307", gone=True)


def refusal(to: Client, nick: str, condition: str, kind: str, room: str = CITY) -> str:
    return (
        f'<presence xmlns="jabber:client" type="error" from="{room}/{nick}" to="{to.jid}">'
        f'<x xmlns="http://jabber.org/protocol/muc"/><error type="{kind}">'
        f'<{condition} xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></presence>'
    )


def message(sender: Client, text: str, stanza_id: str = "m1") -> str:
    return (
        f'<message xmlns="jabber:client" type="groupchat" id="{stanza_id}" '
        f'from="{CITY}/{sender.nick}"><body>{text}</body></message>'
    )


def not_acceptable(to: Client, room: str = CITY, stanza_id: str = "m1") -> str:
    return (
        f'<message xmlns="jabber:client" type="error" id="{stanza_id}" from="{room}" '
        f'to="{to.jid}"><error type="modify">'
        '<not-acceptable xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></message>'
    )


class ChatFixtureTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.fixture = ChatFixture()

"""The game client's own words: its build, its hunts and its XMPP stanzas."""

from __future__ import annotations

import re

BUILD = "239827_rel-1.4.4_shipping"
HUNTS = (
    "CR19_PlayerHunt_Patrol_Flame",
    "CR19_PlayerHunt_FTUE_Pursuit_Rock",
    "CR19_PlayerHunt_Patrol_Alpha_Gem",
)
NAMES = ("Ada", "Bo", "Cleo", "Dag", "Edda", "Finn", "Gro", "Hal")  # of players; made up

# the chat: XMPP in the client's own words
OPEN = '<open xmlns="urn:ietf:params:xml:ns:xmpp-framing" to="{domain}" version="1.0"/>'
AUTH = '<auth xmlns="urn:ietf:params:xml:ns:xmpp-sasl" mechanism="PLAIN">{proof}</auth>'
BIND = (
    '<iq type="set" id="b1"><bind xmlns="urn:ietf:params:xml:ns:xmpp-bind">'
    "<resource>{resource}</resource></bind></iq>"
)
SESSION = '<iq type="set" id="s1"><session xmlns="urn:ietf:params:xml:ns:xmpp-session"/></iq>'
JOIN = '<presence to="{room}/{nick}"><x xmlns="http://jabber.org/protocol/muc"/></presence>'
LEAVE = '<presence to="{room}/{nick}" type="unavailable"/>'
SAY = '<message type="{kind}" to="{to}" id="{id}"><body>{text}</body></message>'
PONG = '<iq type="result" id="{id}"/>'
CLOSE = '<close xmlns="urn:ietf:params:xml:ns:xmpp-framing"/>'
FROM = re.compile(r' from="([^"]*)"')
ID = re.compile(r' id="([^"]*)"')
BODY = re.compile(r"<body>([^<]*)</body>")

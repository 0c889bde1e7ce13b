"""Parses stanzas into small trees, and writes escaped ones. Spec: 2 §4 Chat.

Expat parses, with every construct refused that XMPP forbids and every bound checked
before a node of the tree is made, so that the cost of a frame is linear in its bytes.
"""

from __future__ import annotations

from typing import Any
from xml.parsers import expat

from attrs import define, field

MAX_DEPTH = 16
MAX_ATTRIBUTES = 32
MAX_ELEMENTS = 256
MAX_BYTES = 65_536

FRAMING = "urn:ietf:params:xml:ns:xmpp-framing"
SASL = "urn:ietf:params:xml:ns:xmpp-sasl"
BIND = "urn:ietf:params:xml:ns:xmpp-bind"
PING = "urn:xmpp:ping"
CLIENT = "jabber:client"
LEGACY_AUTH = "jabber:iq:auth"
MUC = "http://jabber.org/protocol/muc"
MUC_USER = "http://jabber.org/protocol/muc#user"
STANZAS = "urn:ietf:params:xml:ns:xmpp-stanzas"
STREAMS = "http://etherx.jabber.org/streams"
STREAM_ERRORS = "urn:ietf:params:xml:ns:xmpp-streams"

CLOSE = f'<close xmlns="{FRAMING}"/>'


def stream_error(condition: str) -> str:
    """A stream error element, by which the server ends the stream."""
    return (
        f'<stream:error xmlns:stream="{STREAMS}">'
        f'<{condition} xmlns="{STREAM_ERRORS}"/></stream:error>'
    )


RESTRICTED_XML = stream_error("restricted-xml")
NOT_AUTHORIZED = stream_error("not-authorized")


class Unparseable(Exception):
    """Not one well-formed element within our bounds."""


class Restricted(Unparseable):
    """A construct XMPP forbids: a DTD, an entity, a comment or a processing instruction."""


@define
class Stanza:
    """An element: local name, namespace, attributes, own text and child elements.

    Namespaced attributes (``xml:lang``) have the key ``namespace local``.
    """

    name: str
    namespace: str
    attributes: dict[str, str]
    children: list[Stanza] = field(factory=list)
    text: str = ""

    def get(self, name: str) -> str:
        """An attribute, or the empty text."""
        return self.attributes.get(name, "")

    def child(self, name: str, namespace: str | None = None) -> Stanza | None:
        """The first child of that name (and namespace, when one is given)."""
        for one in self.children:
            if one.name == name and namespace in (None, one.namespace):
                return one
        return None


def parse(text: str) -> Stanza:
    """The one element in ``text``; raises Restricted or Unparseable."""
    if len(text) > MAX_BYTES:
        raise Unparseable("too long")
    reader = _Reader()
    try:
        reader.parser().Parse(text.encode("utf-8"), True)
    except (expat.ExpatError, UnicodeEncodeError) as why:
        raise Unparseable("not well-formed") from why
    if reader.root is None:
        raise Unparseable("empty")
    return reader.root


@define
class _Reader:
    """Builds the tree; a handler that raises ends the parse."""

    root: Stanza | None = None
    _open: list[Stanza] = field(factory=list)
    _count: int = 0

    def parser(self) -> expat.XMLParserType:
        """A parser with our handlers; not stored, since the reference cycle would need the GC."""
        # a frame is UTF-8, whatever its XML declaration claims
        parser = expat.ParserCreate("utf-8", " ")
        parser.buffer_text = True
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._characters
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ProcessingInstructionHandler = self._refuse
        parser.CommentHandler = self._refuse
        return parser

    def _refuse(self, *_: Any) -> None:
        raise Restricted("forbidden in XMPP")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._count += 1
        if len(self._open) >= MAX_DEPTH:
            raise Unparseable("too deep")
        if len(attributes) > MAX_ATTRIBUTES or self._count > MAX_ELEMENTS:
            raise Unparseable("too many parts")
        namespace, _, local = name.rpartition(" ")
        stanza = Stanza(local, namespace, attributes)
        if self._open:
            self._open[-1].children.append(stanza)
        else:
            self.root = stanza
        self._open.append(stanza)

    def _end(self, _: str) -> None:
        self._open.pop()

    def _characters(self, text: str) -> None:
        self._open[-1].text += text


# -- writing -------------------------------------------------------------------
#
# Stanzas are written from constant texts with escaped values rather than through domish:
# the game client is tested only with double quotes and this order of attributes.

_TEXT = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\r": "&#13;"})
_ATTRIBUTE = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        '"': "&quot;",
        "'": "&apos;",
        "\t": "&#9;",
        "\n": "&#10;",
        "\r": "&#13;",
    }
)


def text(value: str) -> str:
    """``value`` escaped as character data of XML."""
    return value.translate(_TEXT)


def attribute(value: str) -> str:
    """``value`` as it stands between the quotes of an attribute."""
    return value.translate(_ATTRIBUTE)


def element(name: str, inner: str = "", /, **attributes: str | None) -> str:
    """An element with escaped attributes (None ones are left out) around ready ``inner``.

    ``from_`` loses its trailing underscore.
    """
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            parts.append(f'{key.rstrip("_")}="{attribute(value)}"')
    head = " ".join(parts)
    return f"<{head}>{inner}</{name}>" if inner else f"<{head}/>"


def error(condition: str, kind: str) -> str:
    """``<error>`` with a defined condition and one of the types of RFC 6120 8.3.2."""
    return element("error", element(condition, xmlns=STANZAS), type=kind)


def result(stanza_id: str, inner: str = "") -> str:
    """The answer to an iq."""
    return element("iq", inner, xmlns=CLIENT, type="result", id=stanza_id)


def failed(stanza_id: str, condition: str, kind: str) -> str:
    """The error answer to an iq."""
    return element("iq", error(condition, kind), xmlns=CLIENT, type="error", id=stanza_id)

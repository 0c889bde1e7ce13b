"""Stanzas as Twisted Words elements, parsed strictly and serialised as the game client expects.

A frame holds one element (RFC 7395). Every construct that XMPP forbids is refused. Every limit is
checked before an element is created.
"""

import re
from functools import partial
from struct import pack
from typing import Any, NoReturn

from twisted.words.protocols.jabber import sasl, xmlstream
from twisted.words.protocols.jabber.error import StanzaError, StreamError
from twisted.words.xish import domish
from twisted.words.xish.domish import Element

MAX_DEPTH = 16
MAX_ATTRIBUTES = 32
MAX_ELEMENTS = 256
MAX_BYTES = 65_536

FRAMING = "urn:ietf:params:xml:ns:xmpp-framing"
SASL = sasl.NS_XMPP_SASL
BIND = "urn:ietf:params:xml:ns:xmpp-bind"
PING = "urn:xmpp:ping"
CLIENT = "jabber:client"
LEGACY_AUTH = "jabber:iq:auth"
MUC = "http://jabber.org/protocol/muc"
MUC_USER = "http://jabber.org/protocol/muc#user"
STREAMS = xmlstream.NS_STREAMS


class Unparseable(Exception):
    """The error for a frame that is not one well-formed element within the limits."""


class Restricted(Unparseable):
    """The error for XML that XMPP forbids: a DTD, entity, comment or processing instruction."""


def parse(text: str) -> Element:
    """Return the single element in ``text``; raises Restricted or Unparseable."""
    if len(text) > MAX_BYTES:
        raise Unparseable("too long")
    try:
        frame = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unparseable("not UTF-8") from error
    return _FrameReader().parse_frame(frame)


class _FrameReader(domish.ExpatElementStream):
    """The parser of one frame; an exception in a handler stops the parser.

    domish expects an endless stream: it does not add stanzas to the root element. In a frame, the
    root is the stanza, so this parser makes domish add child elements to the root.
    """

    maxStanzaSize = 4 * MAX_BYTES  # of UTF-8

    def __init__(self) -> None:
        super().__init__()
        self._root: Element | None = None
        self._depth = self._count = 0
        self.DocumentStartEvent = self._begin
        self.ElementEvent = self.DocumentEndEvent = _ignore
        parser = self.parser
        parser.StartElementHandler = partial(self._start, parser.StartElementHandler)
        parser.EndElementHandler = partial(self._end, parser.EndElementHandler)
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = _refuse
        parser.ProcessingInstructionHandler = parser.CommentHandler = _refuse

    def parse_frame(self, frame: bytes) -> Element:
        """Return the frame's element; raises Restricted or Unparseable."""
        try:
            self.parse(frame)
            self.parser.Parse(b"", True)
        except (domish.ParserError, self.error) as error:
            raise Unparseable("not well-formed") from error
        finally:
            # the handlers refer to this reader: only the garbage collector would free the cycle
            del self.parser, self.DocumentStartEvent
        if self._root is None:
            raise Unparseable("empty")
        return self._root

    def _begin(self, root: Element) -> None:
        self._root = self.currElem = root

    def _start(self, make: Any, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._count += 1
        if self._depth > MAX_DEPTH:
            raise Unparseable("too deep")
        if len(attributes) > MAX_ATTRIBUTES or self._count > MAX_ELEMENTS:
            raise Unparseable("too many parts")
        make(name, attributes)

    def _end(self, close: Any, name: str) -> None:
        self._depth -= 1
        ended: Any = self.currElem
        close(name)
        ended.parent = None  # it is not needed, and would make a reference cycle


def _refuse(*_: Any) -> NoReturn:
    raise Restricted("forbidden in XMPP")


def _ignore(*_: Any) -> None:
    """Ignore a stream event that ``_FrameReader`` does not need."""


def child(parent: Element, name: str, namespace: str | None = None) -> Element | None:
    """Return the first child with that name and, if given, that namespace."""
    for element in domish.generateElementsNamed(parent.children, name):
        if namespace in (None, element.uri):
            match: Element = element
            return match
    return None


def content(node: Element | None) -> str:
    """Return the text directly inside an element, without the text of child elements."""
    parts = () if node is None else node.children
    return "".join(part for part in parts if isinstance(part, str))


# -- writing -------------------------------------------------------------------


def element(
    namespace: str | None, name: str, *inner: Element | str, **attributes: str | None
) -> Element:
    """Return a new element; attributes that are None are omitted, and ``from_`` becomes ``from``.

    Without a namespace, the element inherits the namespace of its parent.
    """
    made = Element((namespace, name))
    for key, value in attributes.items():
        if value is not None:
            made[key.rstrip("_")] = value
    for node in inner:
        made.addChild(node)
    return made


def error(condition: str, kind: str) -> Element:
    """Return a stanza's ``<error>`` with a condition and a type of RFC 6120, 8.3.2."""
    stanza_error = StanzaError(condition, type=kind)
    stanza_error.code = None  # the numeric code from before XMPP, which the game does not use
    made: Element = stanza_error.getElement()
    return made


def stream_error(condition: str) -> Element:
    """Return a ``<stream:error>``, with which the server ends the stream."""
    made = StreamError(condition).getElement()
    made.localPrefixes = {"stream": STREAMS}
    result: Element = made
    return result


def result(stanza_id: str, *inner: Element) -> Element:
    """Return the result stanza for an iq."""
    return element(CLIENT, "iq", *inner, type="result", id=stanza_id)


def failed(stanza_id: str, condition: str, kind: str) -> Element:
    """Return the error stanza for an iq."""
    return element(CLIENT, "iq", error(condition, kind), type="error", id=stanza_id)


# domish writes single quotes and puts namespaces elsewhere; the game client was tested only with
# double quotes and this order of attributes

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

_find_special = re.compile("[&<>\"'\t\n\r]").search  # four times as fast as ``translate``


def text(value: str) -> str:
    """Escape ``value`` as XML character data."""
    return value.translate(_TEXT) if _find_special(value) else value


def attribute(value: str) -> str:
    """Escape ``value`` for an XML attribute in double quotes."""
    return value.translate(_ATTRIBUTE) if _find_special(value) else value


def serialize(node: Element, default: str = "") -> str:
    """Return an element's XML; ``default`` is the namespace of the surrounding element."""
    namespace = default if node.uri is None else node.uri
    prefix = next((key for key, uri in node.localPrefixes.items() if uri == namespace), "")
    name = f"{prefix}:{node.name}" if prefix else node.name
    head = [name]
    if prefix:
        head.append(f'xmlns:{prefix}="{namespace}"')
    elif namespace != default:
        head.append(f'xmlns="{attribute(namespace)}"')
        default = namespace
    head += [f'{key}="{attribute(value)}"' for key, value in node.attributes.items()]
    inner = "".join(
        text(part) if isinstance(part, str) else serialize(part, default) for part in node.children
    )
    start = " ".join(head)
    return f"<{start}>{inner}</{name}>" if inner else f"<{start}/>"


CLOSE = element(FRAMING, "close")
RESTRICTED_XML = stream_error("restricted-xml")
NOT_AUTHORIZED = stream_error("not-authorized")


def text_frame(xml: str) -> bytes:
    """Return an unmasked, final WebSocket text frame (RFC 6455, 5.2)."""
    payload = xml.encode("utf-8")
    size = len(payload)
    if size < 126:
        return pack("!BB", 0x81, size) + payload
    if size < 65_536:
        return pack("!BBH", 0x81, 126, size) + payload
    return pack("!BBQ", 0x81, 127, size) + payload


def element_frame(node: Element) -> bytes:
    """Return the WebSocket text frame that holds an element."""
    return text_frame(serialize(node))

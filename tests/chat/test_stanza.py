"""Parsing and writing stanzas, especially hostile stanzas."""

import contextlib
import gc
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase
from twisted.words.xish.domish import Element

from svcserver.chat import requests, stanza
from svcserver.chat.effects import PresenceStatus
from svcserver.chat.events import Seat
from svcserver.chat.ghosts import Ghost
from svcserver.chat.names import Room
from svcserver.chat.rooms import Occupant
from svcserver.chat.stanza import Restricted, Unparseable, child, parse

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>'
# what XML 1.0 can carry
XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=60
)

CDATA = "<![CDATA[<!-- <? &b; ]]>"  # in CDATA, these are only text
PIECES = (
    *("<x>", "</x>", "<x/>", "<x a='1'>", "<body>", "</body>", "</message>", "<message>", CDATA),
    *("<!--", "-->", "<!-- -->", "<?x ?>", "<?", "<!DOCTYPE a>", "<!ENTITY b 'c'>", "]]>"),
    *("&b;", "&lt;", "&#60;", "&#0;", "&amp;", "<", ">", "'", '"', "\0", "\ud800", "\ufffe", "p:x"),
    *(" xmlns='urn:x'", "<x xmlns:p='u'>", "<p:x/>", "<x a='&lt;' a='2'/>"),
)


def nest(inner: list[str]) -> str:
    return "".join(f"<a>{item}</a>" for item in inner)


def depth(tree: Element) -> int:
    return 1 + max(map(depth, tree.elements()), default=0)


def count(tree: Element) -> int:
    return 1 + sum(map(count, tree.elements()))


def tree(node: Element) -> Any:
    """Return an element as nested tuples, which are equal for elements with the same meaning."""
    parts = [part if isinstance(part, str) else tree(part) for part in node.children]
    attributes = node.attributes.items()
    names = {key if isinstance(key, str) else key[1]: value for key, value in attributes}
    return node.uri, node.name, names, parts


ROOM = Room("City-1@muc.d", "City", "1", "City-1")


SEAT = Seat(1, "UID-a", "r", "UID-a@d/r", "d")


class ParsingTests(SynchronousTestCase):
    def test_a_stanza_keeps_names_namespaces_attributes_and_text(self) -> None:
        parsed = parse('<iq id="1" xml:lang="en"><bind xmlns="urn:b"><r>a&lt;b</r></bind></iq>')
        bind = child(parsed, "bind", "urn:b")
        assert bind is not None
        self.assertEqual((parsed.name, parsed.uri, parsed["id"]), ("iq", "", "1"))
        self.assertEqual(str(child(bind, "r")), "a<b")
        self.assertIsNone(child(parsed, "bind", "urn:other"))

    def test_a_stanza_leaves_nothing_for_the_collector(self) -> None:
        self.addCleanup(gc.enable)
        gc.collect()
        gc.freeze()  # each collection would visit all existing objects

        def left(text: str) -> int:
            gc.collect()
            gc.disable()
            with contextlib.suppress(Unparseable):
                parse(text)
            return gc.collect()

        for text in ("<a b='c'><d>x</d></a>", "<a><!-- --></a>", "<a", "<a>\ud800</a>"):
            # objects of another test are sometimes freed at the same moment
            self.assertEqual(min(left(text) for _ in range(5)), 0, text)

    def test_an_xml_declaration_cannot_change_the_encoding(self) -> None:
        parsed = parse('<?xml version="1.0" encoding="utf-16"?><a>é</a>')
        self.assertEqual(str(parsed), "é")

    def test_dtd_entities_comments_and_instructions_are_restricted(self) -> None:
        for hostile in (
            BOMB,
            "<!DOCTYPE a><a/>",
            '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
            "<a><!-- x --></a>",
            "<!-- x --><a/>",
            "<a><?php x?></a>",
            '<?xml-stylesheet href="x"?><a/>',
        ):
            with self.subTest(hostile):
                self.assertRaises(Restricted, parse, hostile)

    def test_text_that_is_not_one_element_is_unparseable(self) -> None:
        for hostile in (
            "",
            " ",
            "text",
            "<a>",
            "<a/><b/>",
            "<a/>b",
            "<a b=1/>",
            "<a b='1' b='2'/>",
            "<x:a/>",
            "<a>&nbsp;</a>",
            "<a>\x00</a>",
            "<a>&#0;</a>",
            "<a>\uffff</a>",
            "<a>\ud800</a>",
        ):
            with self.subTest(hostile):
                self.assertRaises(Unparseable, parse, hostile)

    def test_depth_attributes_elements_and_size_are_bounded(self) -> None:
        for hostile in (
            "<a>" * 17 + "</a>" * 17,
            "<a>" * 9000,
            "<a " + " ".join(f'b{n}="1"' for n in range(33)) + "/>",
            "<a>" + "<b/>" * 256 + "</a>",
            "<a>" + "x" * stanza.MAX_BYTES + "</a>",
        ):
            with self.subTest(hostile[:20]):
                self.assertRaises(Unparseable, parse, hostile)
        parse("<a>" * 16 + "</a>" * 16)
        parse("<a " + " ".join(f'b{n}="1"' for n in range(32)) + "/>")
        parse("<a>" + "<b/>" * 255 + "</a>")

    @settings(max_examples=200, deadline=None)
    @given(st.text(alphabet="<>/ab=\"'!?&;#-[] x:\n\0é", max_size=60))
    def test_any_text_is_parsed_or_raises_unparseable(self, hostile: str) -> None:
        with contextlib.suppress(Unparseable):
            parse(hostile)

    @settings(max_examples=200, deadline=None)
    @given(hostile=st.lists(st.sampled_from(PIECES), max_size=12).map("".join), text=XML_TEXT)
    def test_hostile_xml_is_unparseable_or_keeps_the_text_after_it(
        self, hostile: str, text: str
    ) -> None:
        try:
            parsed = parse(f"<message>{hostile}<body>{stanza.text(text)}</body></message>")
        except Unparseable:
            return
        self.assertNotIn("<!--", hostile.replace(CDATA, ""))
        self.assertNotIn("<?", hostile.replace(CDATA, ""))
        self.assertEqual(parsed.name, "message")
        self.assertEqual(str(list(parsed.elements())[-1]), text)

    @settings(max_examples=100, deadline=None)
    @given(
        st.recursive(st.just(""), lambda inner: st.lists(inner, min_size=1, max_size=40).map(nest))
    )
    def test_no_tree_is_larger_than_its_bounds(self, hostile: str) -> None:
        with contextlib.suppress(Unparseable):
            tree = parse(f"<a>{hostile}</a>")
            self.assertLessEqual(depth(tree), stanza.MAX_DEPTH)
            self.assertLessEqual(count(tree), stanza.MAX_ELEMENTS)


class WritingTests(SynchronousTestCase):
    @settings(max_examples=100, deadline=None)
    @given(XML_TEXT, XML_TEXT)
    def test_written_elements_are_read_back_unchanged(self, value: str, body: str) -> None:
        content = [body] if body else []
        made = stanza.element("urn:a", "a", *content, id=value, from_=value)
        parsed = parse(stanza.serialize(made))
        self.assertEqual((parsed["id"], parsed["from"]), (value, value))
        self.assertEqual((parsed.uri, parsed.children), ("urn:a", content))

    def test_a_carriage_return_survives_in_text(self) -> None:
        self.assertEqual(str(parse(stanza.serialize(stanza.element("", "a", "\r\n")))), "\r\n")

    def test_restricted_xml_is_a_stream_error(self) -> None:
        self.assertEqual(
            stanza.serialize(stanza.RESTRICTED_XML),
            '<stream:error xmlns:stream="http://etherx.jabber.org/streams">'
            '<restricted-xml xmlns="urn:ietf:params:xml:ns:xmpp-streams"/></stream:error>',
        )

    def test_white_space_survives_in_attributes(self) -> None:
        value = "\t\r\n'\"<>&"
        made = stanza.element("", "a", id=value)
        self.assertEqual(parse(stanza.serialize(made))["id"], value)

    def test_errors_have_the_given_type(self) -> None:
        self.assertEqual(
            stanza.serialize(stanza.failed("1", "not-authorized", "auth")),
            '<iq xmlns="jabber:client" type="error" id="1"><error type="auth">'
            '<not-authorized xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></iq>',
        )
        self.assertEqual(stanza.error("service-unavailable", "wait").attributes, {"type": "wait"})

    def test_results_carry_the_id(self) -> None:
        self.assertEqual(
            stanza.serialize(stanza.result("a&b")),
            '<iq xmlns="jabber:client" type="result" id="a&amp;b"/>',
        )

    def test_our_xml_parses_to_the_same_element_as_domish_xml(self) -> None:
        occupant = Occupant(Ghost(SEAT), ROOM, "n<1>")
        for made in (
            stanza.CLOSE,
            stanza.RESTRICTED_XML,
            stanza.failed("1", "not-authorized", "auth"),
            requests.opening("d:1"),
            requests.features(account=""),
            PresenceStatus("away", "b&c").stanza("a@d/1", "b@d/1"),
            occupant.presence(ROOM.address, "b@d/1", "110"),
        ):
            self.assertEqual(tree(parse(stanza.serialize(made))), tree(parse(made.toXml())))

    def test_a_prepared_presence_reads_as_its_element(self) -> None:
        occupant = Occupant(Ghost(SEAT), ROOM, "n<1>")
        for to in ("b@d/1", "b@d/\"<&'"):
            before, after = occupant.prepared(ROOM.address, "110")
            prepared = parse(f"{before}{stanza.attribute(to)}{after}")
            expected = occupant.presence(ROOM.address, to, "110")
            self.assertEqual(tree(prepared), tree(parse(expected.toXml())))

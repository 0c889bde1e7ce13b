"""Reading and writing stanzas, hostile ones above all."""

from __future__ import annotations

import contextlib
import gc

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat import stanza
from svcserver.chat.stanza import Restricted, Stanza, Unparseable, parse

BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]><a>&b;</a>'
# what XML 1.0 can carry
XML_TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=60
)

CDATA = "<![CDATA[<!-- <? &b; ]]>"  # these are but text there
PIECES = (
    *("<x>", "</x>", "<x/>", "<x a='1'>", "<body>", "</body>", "</message>", "<message>", CDATA),
    *("<!--", "-->", "<!-- -->", "<?x ?>", "<?", "<!DOCTYPE a>", "<!ENTITY b 'c'>", "]]>"),
    *("&b;", "&lt;", "&#60;", "&#0;", "&amp;", "<", ">", "'", '"', "\0", "\ud800", "\ufffe", "p:x"),
    *(" xmlns='urn:x'", "<x xmlns:p='u'>", "<p:x/>", "<x a='&lt;' a='2'/>"),
)


def nest(inner: list[str]) -> str:
    return "".join(f"<a>{one}</a>" for one in inner)


def depth(tree: Stanza) -> int:
    return 1 + max(map(depth, tree.children), default=0)


def count(tree: Stanza) -> int:
    return 1 + sum(map(count, tree.children))


class ParsingTests(SynchronousTestCase):
    def test_a_stanza_keeps_names_namespaces_attributes_and_text(self) -> None:
        found = parse('<iq id="1" xml:lang="en"><bind xmlns="urn:b"><r>a&lt;b</r></bind></iq>')
        bind = found.child("bind", "urn:b")
        assert bind is not None
        self.assertEqual((found.name, found.namespace, found.get("id")), ("iq", "", "1"))
        self.assertEqual(bind.children[0].text, "a<b")
        self.assertIsNone(found.child("bind", "urn:other"))
        self.assertEqual(found.get("missing"), "")

    def test_a_stanza_leaves_nothing_for_the_collector(self) -> None:
        self.addCleanup(gc.enable)
        gc.collect()
        gc.freeze()  # all that is there already, which each look would go through

        def left(text: str) -> int:
            gc.collect()
            gc.disable()
            with contextlib.suppress(Unparseable):
                parse(text)
            return gc.collect()

        for text in ("<a b='c'><d>x</d></a>", "<a><!-- --></a>", "<a", "<a>\ud800</a>"):
            # now and then something of another test ends just then
            self.assertEqual(min(left(text) for _ in range(5)), 0, text)

    def test_an_xml_declaration_cannot_change_the_encoding(self) -> None:
        found = parse('<?xml version="1.0" encoding="utf-16"?><a>é</a>')
        self.assertEqual(found.text, "é")

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

    def test_what_is_not_one_element_is_unparseable(self) -> None:
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
    def test_no_text_raises_anything_else(self, hostile: str) -> None:
        with contextlib.suppress(Unparseable):
            parse(hostile)

    @settings(max_examples=200, deadline=None)
    @given(hostile=st.lists(st.sampled_from(PIECES), max_size=12).map("".join), said=XML_TEXT)
    def test_no_pieces_of_xml_raise_anything_else_or_hide_a_forbidden_one(
        self, hostile: str, said: str
    ) -> None:
        try:
            found = parse(f"<message>{hostile}<body>{stanza.text(said)}</body></message>")
        except Unparseable:
            return
        self.assertNotIn("<!--", hostile.replace(CDATA, ""))
        self.assertNotIn("<?", hostile.replace(CDATA, ""))
        self.assertEqual(found.name, "message")
        self.assertEqual(found.children[-1].text, said)

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
    def test_whatever_is_written_is_read_back_unchanged(self, value: str, body: str) -> None:
        written = stanza.element("a", stanza.text(body), id=value, from_=value)
        found = parse(written)
        self.assertEqual((found.get("id"), found.get("from")), (value, value))
        self.assertEqual((found.text, found.children), (body, []))

    def test_a_carriage_return_survives_in_text(self) -> None:
        self.assertEqual(parse(stanza.element("a", stanza.text("\r\n"))).text, "\r\n")

    def test_restricted_xml_is_said_as_a_stream_error(self) -> None:
        self.assertEqual(
            stanza.RESTRICTED_XML,
            '<stream:error xmlns:stream="http://etherx.jabber.org/streams">'
            '<restricted-xml xmlns="urn:ietf:params:xml:ns:xmpp-streams"/></stream:error>',
        )

    def test_white_space_survives_in_attributes(self) -> None:
        self.assertEqual(parse(stanza.element("a", id="\t\r\n'\"<>&")).get("id"), "\t\r\n'\"<>&")

    def test_errors_have_the_given_type(self) -> None:
        self.assertEqual(
            stanza.failed("1", "not-authorized", "auth"),
            '<iq xmlns="jabber:client" type="error" id="1"><error type="auth">'
            '<not-authorized xmlns="urn:ietf:params:xml:ns:xmpp-stanzas"/></error></iq>',
        )
        self.assertTrue(
            stanza.error("service-unavailable", "wait").startswith('<error type="wait">')
        )

    def test_results_carry_the_id(self) -> None:
        self.assertEqual(
            stanza.result("a&b"), '<iq xmlns="jabber:client" type="result" id="a&amp;b"/>'
        )

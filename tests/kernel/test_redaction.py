"""Clients' text is redacted without leaving secrets, in linear time."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import redaction
from svcserver.kernel.redaction import LONGEST, printable, redact, redact_bytes
from tests.support.proves import proves

JWT = b"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJl"
ACCOUNT = b"UID-0b9f6f0e-1f5b-4a3e-9d7e-0123456789ab"

WORDS = [ACCOUNT, ACCOUNT[4:], JWT[:9], b"/", b"/", b"-", b"a.b", b"0a" * 7, b"UUK", b"ABCD-EFGH"]


class RedactionTests(SynchronousTestCase):
    @proves("gateway: log lines and redaction")
    def test_secrets_are_replaced(self) -> None:
        for raw, text in (
            (b"/a/" + JWT, "/a/<token>"),
            (b"/a/" + JWT.replace(b".", b"%2E"), "/a/<token>"),
            (b"/k/UUK_" + b"0a" * 20, "/k/<key>"),
            (b"/h/" + b"0a" * 16, "/h/<redacted>"),
            (b"/h/k" + b"0A" * 16, "/h/k<redacted>"),
            (b"/h/" + b"aB3-" * 10, "/h/<redacted>"),
            (b"/account/" + ACCOUNT, "/account/" + ACCOUNT.decode()),
            (b"/x?token=a&b=c&MyKey=d", "/x?token=<redacted>&b=c&MyKey=<redacted>"),
            (b"/x?inviteCode=a&t%6Fken=b", "/x?inviteCode=<redacted>&t%6Fken=<redacted>"),
            (b"/h/" + b"g7" * 20, "/h/<redacted>"),
            (b"/x?credentials=a&u=b", "/x?credentials=<redacted>&u=b"),
            (b"0a" * 16, "<redacted>"),
            (b"/a\x1b[0m\xff", "/a?[0m?"),
            (b"/plain/path-with.words", "/plain/path-with.words"),
        ):
            self.assertEqual(redact_bytes(raw), text)

    @proves("gateway: log lines and redaction")
    def test_a_secret_that_an_owner_has_chosen_is_known_by_its_place(self) -> None:
        for raw, text in (
            (b"/svc/api/InviteCode/tuesday", "/svc/api/InviteCode/<redacted>"),
            (b"/svc/api//invitecode//a/b", "/svc/api//invitecode//<redacted>"),
            (b"/svc/api/InviteCod%65%2Ftues%3Fday?a=b", "/svc/api/InviteCode/<redacted>?a=b"),
            (b"/svc/api/InviteCode/" + b"x" * 500, "/svc/api/InviteCode/<redacted>"),
            (b"/account/api/oauth/sessions/kill/me", "/account/api/oauth/sessions/kill/<redacted>"),
            (b"/sessions/Kill/\n", "/sessions/Kill/<redacted>"),
            (b"/svc/api/InviteCodes", "/svc/api/InviteCodes"),
            (b"/svc/api/InviteCode/", "/svc/api/InviteCode/"),
        ):
            self.assertEqual(redact_bytes(raw), text)

    def test_a_strangers_words_are_printable_cut_and_without_secrets(self) -> None:
        text = JWT.decode()
        self.assertEqual(printable(f"/Game/Maps/{text}?a=\x1b[2J\n"), "/Game/Maps/<token>?a=?[2J?")
        self.assertEqual(printable(ACCOUNT.decode() + text, 9), "UID-0b9f6")
        self.assertNotIn("UUK", printable("x" * 50 + "UUK_" + "0a" * 20, 60))

    def test_a_long_path_is_cut_at_the_limit(self) -> None:
        self.assertEqual(redact_bytes(b"/" + b"a/" * 9_999), ("/" + "a/" * 200)[:LONGEST] + "...")

    def test_a_text_that_is_not_cut_has_no_dots(self) -> None:
        whole = b"/?token=" + b"x" * 1_592
        self.assertEqual(redact_bytes(whole), "/?token=<redacted>")
        self.assertEqual(redact_bytes(whole + b"x"), "/?token=<redacted>...")

    @settings(max_examples=300, deadline=None)
    @given(st.lists(st.sampled_from(WORDS), max_size=4))
    def test_the_fast_and_the_slow_path_give_the_same_result(self, words: list[bytes]) -> None:
        path = b"/" + b"".join(words)
        self.assertEqual(redact_bytes(path), redaction._shown(path))

    @settings(max_examples=50, deadline=None)
    @given(st.binary(max_size=900), st.booleans())
    def test_no_byte_breaks_the_log(self, noise: bytes, question: bool) -> None:
        text = redact_bytes(noise + (b"?" if question else b"/") + JWT + noise)
        self.assertTrue(text.isascii() and text.isprintable())
        self.assertLessEqual(len(text), LONGEST + 3)
        self.assertNotIn("c2lnbmF0dXJl", text)

    def test_half_a_secret_at_the_cut_is_not_shown(self) -> None:
        # the text is cut within its last word
        hidden = b"/" + b"UUK_abcdef/" * 144 + b"UUK" + b"_" * 100
        text = redact_bytes(b"/?token=" + b"x" * 1_590 + b"&a=" + JWT)
        self.assertEqual(text, "/?token=<redacted>&...")
        self.assertNotIn("abcdef", redact_bytes(hidden))

    def test_tokens_without_signature_or_among_other_dots_are_redacted(self) -> None:
        self.assertEqual(redact("a.b eyJhbGciOiJ9.eyJzdWIi. c"), "a.b <token> c")
        self.assertEqual(redact("eyJhbGciOiJ9.eyJzdWIi"), "<token>")
        self.assertEqual(redact("v1.xeyJhbGciOiJ9.eyJzdWIi.sig.tail"), "v1.x<token>.tail")
        self.assertEqual(redact("honeyJar.png and eyJ.x"), "honeyJar.png and eyJ.x")

    def test_percent_encoding_hides_no_secret(self) -> None:
        self.assertEqual(redact_bytes(b"/k/UUK_ab%61b%20c"), "/k/<key> c")
        self.assertEqual(redact_bytes(b"/k/UU%4B_abab/c%20d"), "/k/<key>/c d")
        self.assertEqual(redact_bytes(b"/c/ABCD-EFGH-JK%4DN"), "/c/<redacted>")
        self.assertEqual(redact_bytes(b"/plain%20words/x"), "/plain%20words/x")

    def test_forty_hex_characters_are_a_secret_and_a_short_word_is_not(self) -> None:
        for text, shown in (("0a" * 20, "<redacted>"), ("x" * 32, "x" * 32), ("x" * 40, "x" * 40)):
            self.assertEqual(redact(text), shown)
            self.assertEqual(redact_bytes(text.encode()), shown)

    def test_sixteen_kilobytes_cost_less_than_a_millisecond_each(self) -> None:
        for word in (
            b"eyJ",
            b"eyJ.",
            b"UUK_",
            b"a",
            b"0",
            b"a-",
            b"%",
            b"%2e",
            b"&key",
            b"=",
            b"?",
        ):
            hostile = b"/" + word * (16_000 // len(word))
            text = hostile.decode("latin-1") * 4
            began = time.thread_time()
            for _ in range(20):
                redact_bytes(hostile)
            for _ in range(2):
                redact(text)
            self.assertLess(time.thread_time() - began, 0.2, word)

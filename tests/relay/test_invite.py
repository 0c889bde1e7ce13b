"""Invite strings: every rule, in the order in which the rules are checked."""

import json
import tempfile
from pathlib import Path

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.invite import (
    LONGEST,
    BadInvite,
    Invite,
    decode,
    encode,
    is_server_name,
    read_invite,
)
from tests.support.proves import proves

FP = "0a" * 32
GOOD = Invite("203.0.113.10", 443, "Friday Hunts", "ABCD-EFGH-JKMN", FP)
PARTS = {
    "v": "2",
    "mode": "public",
    "host": "203.0.113.10",
    "port": "443",
    "fp": FP,
    "code": "ABCD-EFGH",
    "name": "Friday%20Hunts",
}


def text(**changes: str | None) -> str:
    parts = {**PARTS, **changes}
    return "svc://join?" + "&".join(f"{k}={v}" for k, v in parts.items() if v is not None)


def private(**changes: str | None) -> str:
    return text(**{"v": "1", "mode": None, "fp": None, "host": "100.64.0.7", **changes})


def fault(of: str) -> str:
    try:
        decode(of)
    except BadInvite as why:
        return why.code
    return ""


# the pasted text, and the code of its fault
FAULTS = (
    ("", "empty"),
    ("  \n", "empty"),
    (text(name="x" * LONGEST), "too_long"),
    ("http://join?v=2", "not_invite"),
    ("svc://other?v=2", "not_invite"),
    ("svc://join", "params"),
    (text() + "#x", "params"),
    (text() + "&v=2", "params"),
    (text() + "&extra=1", "params"),
    (text(name=""), "params"),
    (text(name="%zz"), "params"),
    (text(name="%ff"), "params"),
    (text(v="3"), "version"),
    (text(v="02"), "version"),
    (text(v=None), "version"),
    (text(mode="private"), "mode"),
    (text(mode=None), "mode"),
    (private(mode="public"), "mode"),
    (text(host=None), "host"),
    (text(host="::1"), "host"),
    (text(host="a@b"), "host"),
    (text(host="a/b"), "host"),
    (text(host="203.0.113.010"), "host"),
    (text(host="1.2.3"), "host"),
    (text(host="-a.example"), "host"),
    (text(host="a..b"), "host"),
    (text(host="a.123"), "host"),
    (private(host="203.0.113.10"), "host"),
    (private(host="play.example"), "host"),
    (text(port="0"), "port"),
    (text(port="0443"), "port"),
    (text(port="65536"), "port"),
    (private(port=None), "port"),
    (text(fp=None), "fp"),
    (text(fp=FP.upper()), "fp"),
    (text(fp=FP[:-1]), "fp"),
    (private(fp=FP), "fp"),
    (text(fp2=FP.upper()), "fp"),
    (text(fp2=FP[:-1]), "fp"),
    (private(fp2=FP), "fp"),
    (text(code="abc"), "code"),
    (text(code="ab_cd"), "code"),
    (text(code=None), "code"),
    (text(name=None), "name"),
    (text(name="%20%20"), "name"),
    (text(name="a%0ab"), "name"),
    (text(name="a%E2%80%AEb"), "name"),
    (text(name="a" * 65), "name"),
    (text(share="https://login.tailscale.com/x"), "share"),
    (private(share="http://login.tailscale.com/x"), "share"),
    (private(share="https://evil.example/x"), "share"),
)


class DecodingTests(SynchronousTestCase):
    def test_public_and_private_invites_are_decoded(self) -> None:
        self.assertEqual(decode(text(code="ABCD-EFGH-JKMN")), GOOD)
        both = decode(text(code="ABCD-EFGH-JKMN", fp2="0b" * 32))
        self.assertEqual(both, evolve(GOOD, next_fingerprint="0b" * 32))
        self.assertEqual(decode(encode(both)), both)
        result = decode(private(port="61000", host="box.tail1.ts.net"))
        self.assertEqual(
            (result.host, result.port, result.public), ("box.tail1.ts.net", 61000, False)
        )

    def test_spelling_of_the_start_and_blanks_do_not_matter(self) -> None:
        for changed in (
            " " + text() + "\n",
            text().replace("svc://join", "SVC://Join/"),
            text(name="Friday+Hunts"),
            text(port=None),
        ):
            self.assertEqual(decode(changed).name, "Friday Hunts")

    @proves("relay: invite string")
    def test_every_fault_has_its_code(self) -> None:
        for given_, code in FAULTS:
            with self.subTest(text=given_[:90]):
                self.assertEqual(fault(given_), code)

    def test_cut_invite_is_reported_as_incomplete(self) -> None:
        for whole in (text(fp2="0b" * 32), text(name="%C3%A9%C3%A9"), private(port="61000")):
            for end in range(len("svc:"), len(whole)):
                try:
                    self.assertTrue(decode(whole[:end]).name)  # cut inside the name
                except BadInvite as error:
                    self.assertEqual(str(error), "this invite is incomplete. Copy the whole line")

    @proves("relay: invite string")
    def test_checks_come_in_the_documented_order(self) -> None:
        wrong = {"v": "9", "mode": "x", "host": "::", "port": "0", "fp": "x", "code": "!"}
        for field, right in (*PARTS.items(),):
            if field == "name":
                break
            code = {"v": "version"}.get(field, field)
            self.assertEqual(fault(text(**wrong)), code)
            wrong[field] = right

    @proves("relay: invite string")
    def test_the_invite_code_is_in_no_repr_or_error(self) -> None:
        self.assertNotIn("ABCD", repr(GOOD))
        with self.assertRaises(BadInvite) as caught:
            decode(text(code="SECRET_CODE"))
        self.assertNotIn("SECRET", str(caught.exception))

    @proves("relay: invite string")
    @settings(max_examples=100, deadline=None)
    @given(
        st.text(min_size=1, max_size=64).filter(lambda name: is_server_name(name.strip())),
        st.integers(1, 65535),
        st.from_regex(r"\A[A-Za-z0-9-]{4,64}\Z"),
    )
    def test_an_encoded_invite_is_decoded(self, name: str, port: int, code: str) -> None:
        invite = evolve(GOOD, name=name.strip(), port=port, code=code)
        self.assertEqual(decode(encode(invite)), invite)

    @settings(max_examples=200, deadline=None)
    @given(st.one_of(st.text(max_size=60), st.text(max_size=60).map(lambda t: "svc://join?" + t)))
    def test_noise_is_a_bad_invite_and_nothing_else(self, noise: str) -> None:
        self.assertNotEqual(fault(noise), "")

    def test_an_invite_that_cannot_be_decoded_is_not_encoded(self) -> None:
        for bad in (evolve(GOOD, host="a b"), evolve(GOOD, code="x"), evolve(GOOD, port=0)):
            with self.assertRaises(BadInvite):
                encode(bad)


class FileTests(SynchronousTestCase):
    @proves("relay: invite file")
    def test_a_file_holds_the_string_or_json(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "join.txt"
        path.write_text(encode(GOOD) + "\nmore\n")
        self.assertEqual(read_invite(str(path)), GOOD)
        values = {"host": GOOD.host, "port": 443, "fingerprint": FP, "name": GOOD.name}
        path.write_text(json.dumps({**values, "code": GOOD.code}))
        self.assertEqual(read_invite(str(path)), GOOD)
        self.assertEqual(read_invite(encode(GOOD)), GOOD)
        path.write_text(json.dumps({**values, "code": GOOD.code, "fingerprint2": "0b" * 32}))
        self.assertEqual(read_invite(str(path)), evolve(GOOD, next_fingerprint="0b" * 32))

    @proves("relay: invite file")
    def test_bad_files_are_bad_invites(self) -> None:
        path = Path(self.enterContext(tempfile.TemporaryDirectory())) / "join.txt"
        for content in (b"", b"{", b"{}", b'{"host": 1}', b"\xff\xfe", b"[" * 9_999, b"{" * 9_999):
            path.write_bytes(content)
            with self.assertRaises(BadInvite):
                read_invite(str(path))
        with self.assertRaises(BadInvite):
            read_invite("/nowhere/at/all")

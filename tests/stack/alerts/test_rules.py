"""Alerts: when they are sent or held back, and their form for each receiver."""

from __future__ import annotations

import hmac
import json
from datetime import time
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.alert_settings import (
    UNSIGNED,
    AlertKind,
    Channel,
    QuietHours,
    path_of,
    read_channel,
    read_channels,
)
from svcserver.kernel.secrets import Secret
from svcserver.kernel.settings import BadSetting, load
from svcserver.stack.alerts import delivering
from svcserver.stack.alerts.delivering import AlertClient, NotDelivered, is_public
from svcserver.stack.alerts.rules import Alert, Faults, HeldAlerts
from tests.support.nasty import NASTY, unsafe_in
from tests.support.proves import proves

NOW = 1_790_000_000.0
DOWN = Alert(AlertKind.DOWN, "gateway", "It has not been ready for 60 s.", NOW)
OVER = Alert(AlertKind.DOWN, "gateway", "All is well again.", 1_790_000_100.0, over=True)
SIGNED = "FORM=json\nURL=https://x\nSIGNING_SECRET=word\n"
ODD_URLS = (
    "https://example/SECRET\u00e9",
    "https://example/?SECRET=\u20ac",
    f"https://{'a' * 64}.example/SECRET",
    "https://a..example/SECRET",
    "https://.example/SECRET",
    f"https://{'a.' * 130}example/SECRET",
    f"https://{chr(0xFC) * 60}.example/SECRET",
    "https://[::1/SECRET",
    "https://[nonsense]/SECRET",
    "https://::1/SECRET",
    "https://example:65536/SECRET",
    "https://example:0/SECRET",
    "https://example:-1/SECRET",
    "https://example:x/SECRET",
    "https:///SECRET",
    "SECRET",
    "https://example/SECRET\x1b[2J",
    "https://example/SECRET\x00",
    "https://exa\tmple/SECRET",
    "https://exa mple/SECRET",
    "https://example\u2100/SECRET",  # becomes a/c in NFKC
    "https://example/\u202eSECRET",
    f"https://example/{'SECRET' * 400}",
)
URL = Secret("https://hooks.example/secret-path")


class FaultTests(SynchronousTestCase):
    @proves("alerts: once when it begins, once a day, and at its end")
    def test_fault_is_reported_at_its_start_daily_and_at_its_end(self) -> None:
        faults = Faults()
        self.assertIsNone(faults.update(AlertKind.DOWN, "gateway", None, NOW))
        first = faults.update(AlertKind.DOWN, "gateway", "gone", NOW)
        assert first is not None
        self.assertEqual((first.title, first.text), ("gateway is down", "gone"))
        self.assertIsNone(faults.update(AlertKind.DOWN, "gateway", "gone", NOW + 86_399))
        self.assertIsNotNone(faults.update(AlertKind.DOWN, "deploy", "gone", NOW + 86_399))
        self.assertIsNotNone(faults.update(AlertKind.DOWN, "gateway", "gone", NOW + 86_400))
        over = faults.update(AlertKind.DOWN, "gateway", None, NOW + 86_402)
        assert over is not None
        self.assertEqual((over.over, over.title), (True, "gateway is down: over"))
        self.assertIsNone(faults.update(AlertKind.DOWN, "gateway", None, NOW + 86_403))

    def test_intermittent_fault_is_reported_once_until_it_is_over(self) -> None:
        faults = Faults()
        alerts = [
            faults.update(AlertKind.ERRORS, "metagame", wrong, NOW) for wrong in ["5xx", None] * 20
        ]
        self.assertEqual([alert is not None for alert in alerts], [True] + [False] * 39)
        after = [faults.update(AlertKind.ERRORS, "metagame", None, NOW) for _ in range(6)]
        self.assertEqual(
            [alert is not None and alert.over for alert in after], [False, True] + [False] * 4
        )
        self.assertIsNotNone(faults.update(AlertKind.ERRORS, "metagame", "5xx", NOW))

    def test_number_of_reported_faults_is_limited(self) -> None:
        def see(number: int, at: float, wrong: str | None = "gone") -> bool:
            return faults.update(AlertKind.DOWN, str(number), wrong, at) is not None

        faults = Faults()
        reported = [see(number, NOW) for number in range(205)]
        self.assertEqual(reported, [True] * 200 + [False] * 5)
        self.assertTrue(see(0, NOW + 86_400))
        self.assertFalse(see(204, NOW + 86_400))
        self.assertTrue(see(1, NOW + 86_400, None) and see(204, NOW + 86_400))

    def test_a_text_is_one_line_of_five_hundred_characters(self) -> None:
        alert = Faults().update(AlertKind.DISK, "the host's", "a\n b" + "x" * 600, NOW)
        assert alert is not None
        self.assertEqual(alert.text, "a b" + "x" * 497)

    @proves("alerts: quiet hours")
    def test_quiet_hours_drop_faults_that_end_in_them(self) -> None:
        held = HeldAlerts()
        held.hold(DOWN), held.hold(Alert(AlertKind.DISK, "the host's", "x", 1.0))
        held.hold(OVER)
        self.assertEqual([alert.what for alert in held.release()], [AlertKind.DISK])
        self.assertEqual(held.release(), [])
        held.hold(OVER)  # the fault began before the quiet hours, and was reported then
        self.assertEqual(held.release(), [OVER])
        small = HeldAlerts(most=2)
        for number in range(9):
            small.hold(Alert(AlertKind.DOWN, str(number), "x", 1.0))
        self.assertEqual(len(small.release()), 2)

    @given(st.times(), st.times(), st.times())
    def test_outside_quiet_hours_is_inside_their_complement(
        self, begin: time, end: time, now: time
    ) -> None:
        if begin != end:
            hours, complement = QuietHours(begin, end), QuietHours(end, begin)
            self.assertIs(hours.include(now), not complement.include(now))
        else:
            self.assertIs(QuietHours(begin, end).include(now), False)


class FormTests(SynchronousTestCase):
    @proves("alerts: json, discord, slack, matrix, ntfy, mail, signed")
    def test_each_receiver_gets_its_own_form(self) -> None:
        def body(form: str, **more: object) -> tuple[delivering.WebhookRequest, str]:
            sent = delivering.request(DOWN, "Hearth", Channel(form=form, url=URL, **more), "n1")
            return sent, sent.body.decode()

        sent, text = body("json")
        data = json.loads(text)
        self.assertEqual((data["what"], data["subject"], data["over"]), ("down", "gateway", False))
        self.assertEqual(data["at"], "2026-09-21T14:13:20.000Z")
        sent, text = body("discord")
        self.assertEqual(json.loads(text)["allowed_mentions"], {"parse": []})
        sent, text = body("slack")
        self.assertEqual(json.loads(text)["text"], "Hearth: gateway is down. " + DOWN.text)
        sent, text = body("matrix", room="!abc:example.org", token=Secret("word"))
        where = "/_matrix/client/v3/rooms/%21abc%3Aexample.org/send/m.room.message/n1"
        self.assertEqual((sent.method, sent.path), ("PUT", where))
        self.assertEqual(sent.headers["Authorization"], "Bearer word")
        sent, text = body("ntfy")
        self.assertEqual((sent.headers["Title"], text), ("Hearth: gateway is down", DOWN.text))
        mail = delivering.mail(
            DOWN, "Hearth", Channel(form="mail", url=URL, mail_from="a@b.c", mail_to=("d@e.f",))
        )
        self.assertEqual(mail["Subject"], "Hearth: gateway is down")
        sent, text = body("json", signing_secret=Secret("k"))
        wanted = hmac.new(b"k", b"1790000000." + text.encode(), "sha256").hexdigest()
        self.assertEqual(sent.headers[delivering.SIGNATURE], f"t=1790000000,v1={wanted}")

    def test_foreign_text_notifies_nobody_and_ends_no_header(self) -> None:
        alert = Alert(AlertKind.DOWN, NASTY, f"{NASTY}\udc80\nlook at its log", DOWN.at)
        ways = {"url": URL, "mail_from": "a@b.c", "mail_to": ("d@e.f",)}
        for form in ("json", "discord", "slack", "matrix", "ntfy"):
            sent = delivering.request(alert, "Hearth", Channel(form=form, **ways), "n")
            for text in (sent.body.decode(), *sent.headers.values()):
                self.assertEqual(unsafe_in(text.replace("\n", "")), "", form)
        discord = json.loads(
            delivering.request(alert, "H", Channel(form="discord", **ways), "n").body
        )
        self.assertNotIn("[a](", discord["content"])
        slack = json.loads(
            delivering.request(alert, "<!here>", Channel(form="slack", **ways), "n").body
        )
        self.assertNotIn("<", slack["text"])
        matrix = json.loads(
            delivering.request(alert, "H", Channel(form="matrix", **ways), "n").body
        )
        self.assertEqual(matrix["m.mentions"], {})
        mail = delivering.mail(alert, "Hearth", Channel(form="mail", **ways))
        self.assertEqual(sorted(mail), sorted({*mail.keys()}))
        self.assertEqual(unsafe_in(mail["Subject"] + mail.get_content().replace("\n", "")), "")
        self.assertIn("\nlook at its log\n", mail.get_content())

    def test_host_name_cannot_add_a_header(self) -> None:
        sent = delivering.request(DOWN, "a\r\nX-Evil: 1", Channel(form="ntfy", url=URL), "n")
        self.assertNotIn("\n", sent.headers["Title"])

    def test_no_secret_is_shown(self) -> None:
        channel = Channel(form="json", url=URL, token=Secret("word"), signing_secret=Secret("key"))
        shown = repr(channel) + repr(delivering.request(DOWN, "h", channel, "n"))
        for word in ("secret-path", "word", "'key'"):
            self.assertNotIn(word, shown)


def refusal(test: SynchronousTestCase, channel: Channel) -> NotDelivered:
    """Return the reason for which an alert to the channel is refused.

    The fake name server resolves each name to the name itself, so a channel can name any address.
    """

    async def itself(name: str, port: int) -> list[str]:
        return [name]

    delivery = AlertClient(MemoryReactorClock(), "h", itself).deliver(channel, DOWN, "n")
    reason = test.failureResultOf(delivery, NotDelivered).value
    assert isinstance(reason, NotDelivered)
    return reason


class AddressTests(SynchronousTestCase):
    @proves("alerts: to public addresses only unless allowed")
    def test_only_public_addresses_are_used(self) -> None:
        inside = (
            "127.0.0.1", "10.1.2.3", "192.168.0.9", "169.254.169.254", "100.64.0.1", "0.0.0.0",
            "224.0.0.1", "::1", "fe80::1%eth0", "fd00::1", "::ffff:127.0.0.1", "2002:7f00:1::",
            "2001:0:0:0::1", "::127.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::10.1.2.3",
            "64:ff9b:1::9.9.9.9", "fec0::1", "5f00::1", "nonsense", "",
        )  # fmt: skip
        for address in inside:
            self.assertFalse(is_public(address), address)
        for address in ("9.9.9.9", "2620:fe::fe", "::ffff:9.9.9.9", "64:ff9b::9.9.9.9"):
            self.assertTrue(is_public(address), address)
        own = Channel(form="json", url=Secret("https://127.0.0.1/"))
        self.assertFalse(refusal(self, own).again)

    def test_bad_url_is_not_tried_again(self) -> None:
        for url in ("http://9.9.9.9/", "ftp://x/", "https://", "https://x:99999999/", "nothing"):
            channel = Channel(form="json", url=Secret(url))
            why = refusal(self, channel)
            self.assertFalse(why.again, url)
        mail = Channel(form="mail", url=Secret("smtp://127.0.0.1:1"), private=True)
        self.assertFalse(refusal(self, mail).again)


class ChannelTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(TemporaryDirectory()))

    def test_channel_file_is_parsed(self) -> None:
        lines = "FORM=ntfy\nURL=https://x/y\nUNSIGNED=1\nABOUT=down, backup\nQUIET=23:00-7:00\n"
        path_of(self.folder, "phone").write_text(lines)
        (self.folder / "alert-Bad Name.env").write_text(lines)
        (self.folder / "alert-broken.env").write_text("FORM=pigeon\n")
        channels, wrong = read_channels(self.folder)
        [phone] = channels
        self.assertEqual(
            (phone.name, phone.channel.about), ("phone", (AlertKind.DOWN, AlertKind.BACKUP))
        )
        self.assertEqual(phone.channel.quiet, QuietHours(time(23), time(7)))
        self.assertFalse(phone.channel.wants(AlertKind.DISK))
        self.assertTrue(phone.channel.wants(AlertKind.TEST))
        self.assertEqual(len(wrong), 2)

    def test_kinds_have_the_documented_words(self) -> None:
        words = ("down", "loop", "disk", "certificate", "backup", "errors", "attack", "node")
        words += ("agent", "memory", "test")
        path_of(self.folder, "x").write_text(f"{SIGNED}ABOUT={','.join(words)}\n")
        [(channel, _)] = [(named.channel, named.name) for named in read_channels(self.folder)[0]]
        self.assertEqual(channel.about, tuple(AlertKind))
        self.assertEqual(Alert(AlertKind.TEST, "this host:", "x", NOW).title, "this host: test")

    @proves("alerts: json, discord, slack, matrix, ntfy, mail, signed")
    def test_unsigned_webhook_is_used_and_named_unless_allowed(self) -> None:
        path = path_of(self.folder, "x")
        for form in ("json", "discord", "matrix", "ntfy"):
            lines = f"FORM={form}\nURL=https://x\n"
            for line in ("", "SIGNING_SECRET=\n", "UNSIGNED=0\n"):
                path.write_text(lines + line)
                [old], [wrong] = read_channels(
                    self.folder
                )  # a file from before the introduction of signatures
                self.assertEqual(old.channel.form, form)
                self.assertEqual(wrong.text, f"alert-x.env: {UNSIGNED}")
            for line in ("UNSIGNED=1\n", "SIGNING_SECRET=word\n"):
                path.write_text(lines + line)
                self.assertEqual(read_channels(self.folder)[1], [])
        path.write_text("FORM=mail\nURL=smtps://x\n")
        self.assertEqual(read_channels(self.folder)[1], [])

    def test_an_odd_address_is_refused_in_one_line(self) -> None:
        path = path_of(self.folder, "x")
        for url in ODD_URLS:
            path.write_text(f"FORM=json\nUNSIGNED=1\nURL={url}\n", encoding="utf-8")
            why = str(self.assertRaises(BadSetting, read_channel, path))
            self.assertTrue(why.startswith("alert-x.env: URL must "), why)
            self.assertLess(len(why), 160)
            self.assertNotIn("SECRET", why)
            channel = Channel(form="json", url=Secret(url))
            refused = refusal(self, channel)
            self.assertFalse(refused.again, url)

    def test_urls_that_can_be_sent_are_accepted(self) -> None:
        path = path_of(self.folder, "x")
        for url in (
            "https://b\u00fccher.example/%C3%A4?a=b&c=%20#d",
            "https://xn--bcher-kva.example./",
            "https://[2620:fe::fe]:8443/",
            f"https://{'a' * 63}.example/{'b' * 1900}",
            "smtps://user:word@mail.example:465",
        ):
            path.write_text(f"FORM=json\nUNSIGNED=1\nURL={url}\n", encoding="utf-8")
            self.assertEqual(read_channel(path).url.reveal(), url)

    def test_an_odd_line_is_refused_in_one_line(self) -> None:
        path = path_of(self.folder, "x")
        for line in (
            "TOKEN=SECRET\u20ac",
            "TOKEN=SECRET\u00e9",
            "TOKEN=SECRET\x01",
            f"TOKEN=SECRET{'x' * 5000}",
            "ROOM=!SECRET\x1b[2J:example.org",
            "MAIL_USER=SECRET\u00e9",
            "MAIL_FROM=SECRET\x07@example.org",
            "MAIL_FROM=<>",
            f"MAIL_TO=a@b.example,{'SECRET' * 60}@c.example",
        ):
            path.write_text(f"{SIGNED}{line}\n", encoding="utf-8")
            why = str(self.assertRaises(BadSetting, read_channel, path))
            self.assertTrue(why.startswith(f"alert-x.env: {line.partition('=')[0]} must "), why)
            self.assertNotIn("SECRET", why)
        path.write_text(f"{SIGNED}MAIL_FROM=Hearth \u2014 owner <root>\nMAIL_TO=a@b.c, d\n")
        self.assertEqual(read_channel(path).mail_to, ("a@b.c", "d"))

    @given(st.text(max_size=40), st.sampled_from(["https://", "https://[", "https://a@", ""]))
    def test_any_text_as_a_url_is_accepted_or_refused(self, text: str, scheme: str) -> None:
        lines = {"FORM": "json", "URL": scheme + text, "PRIVATE": "1"}
        try:
            load(Channel, lines)
        except BadSetting:
            url = Secret(scheme + text)
            refused = refusal(self, Channel(form="json", url=url))
            self.assertFalse(refused.again)

    def test_bad_value_is_refused_in_one_line(self) -> None:
        path = path_of(self.folder, "x")
        for line in ("QUIET=25:00-1:00", "QUIET=nights", "ABOUT=weather", "FORM=x"):
            path.write_text(f"{SIGNED}{line}\n")
            why = self.assertRaises(BadSetting, read_channel, path)
            self.assertTrue(str(why).startswith("alert-x.env: "), why)
        path.write_bytes(b"\xff\xfe")
        self.assertRaises(BadSetting, read_channel, path)

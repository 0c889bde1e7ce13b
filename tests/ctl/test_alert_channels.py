"""``svcctl alerts add``: every webhook is signed, unless the owner says otherwise."""

from __future__ import annotations

from tests.ctl.hosts import value
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves


class AlertChannelTests(HostCase):
    def add(self, name: str, form: str, *lines: str) -> str:
        """What is said of a channel that is added."""
        words = [word for line in lines for word in ("--set", line)]
        url = "smtps://mail.example" if form == "mail" else "https://203.0.113.9/x"
        ran = self.ctl("alerts", "add", name, "--form", form, "--url", url, *words)
        self.assertEqual(ran.status, 0, ran.err)
        return str(ran.out)

    @proves("svcctl alerts", "alerts: json, discord, matrix, ntfy, mail, signed")
    def test_each_has_a_secret_of_its_own_that_is_not_printed(self) -> None:
        found = set()
        for form in ("json", "discord", "matrix", "ntfy"):
            out = self.add(form, form)
            secret = value(self.folder, f"alert-{form}", "SIGNING_SECRET")
            self.assertEqual(len(secret), 64)
            self.assertNotIn(secret, out)
            self.assertIn("is signed by the SIGNING_SECRET there", out)
            found.add(secret)
        self.assertEqual(len(found), 4)

    def test_what_the_owner_says_stands(self) -> None:
        self.assertNotIn("signed", self.add("own", "json", "SIGNING_SECRET=a-word-of-mine"))
        self.assertNotIn("signed", self.add("plain", "json", "UNSIGNED=1"))
        self.assertNotIn("signed", self.add("mail", "mail"))
        text = {
            one: (self.folder / f"alert-{one}.env").read_text() for one in ("own", "plain", "mail")
        }
        self.assertEqual(text["own"].count("SIGNING_SECRET"), 1)
        self.assertNotIn("SIGNING_SECRET", text["plain"] + text["mail"])

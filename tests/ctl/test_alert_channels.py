"""``svcctl alerts add`` signs every webhook unless the owner disables signing."""

from typing import Any

from click.testing import CliRunner

from svcserver.ctl.main import main
from tests.ctl.hosts import value
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves


class AlertChannelTests(HostCase):
    def add(self, name: str, form: str, *lines: str) -> str:
        """Return the output of adding a channel."""
        words = [word for line in lines for word in ("--set", line)]
        url = "smtps://mail.example" if form == "mail" else "https://203.0.113.9/x"
        ran = self.ctl("alerts", "add", name, "--form", form, "--url", url, *words)
        self.assertEqual(ran.status, 0, ran.err)
        return str(ran.out)

    @proves("svcctl alerts", "alerts: json, discord, slack, matrix, ntfy, mail, signed")
    def test_each_channel_gets_a_different_secret_that_is_not_printed(self) -> None:
        secrets = set()
        for form in ("json", "discord", "matrix", "ntfy"):
            out = self.add(form, form)
            secret = value(self.folder, f"alert-{form}", "SIGNING_SECRET")
            self.assertEqual(len(secret), 64)
            self.assertNotIn(secret, out)
            self.assertIn("is signed with the SIGNING_SECRET in that file", out)
            secrets.add(secret)
        self.assertEqual(len(secrets), 4)

    def test_a_given_secret_unsigned_or_mail_gets_no_new_secret(self) -> None:
        self.assertNotIn("signed", self.add("own", "json", "SIGNING_SECRET=a-word-of-mine"))
        self.assertNotIn("signed", self.add("plain", "json", "UNSIGNED=1"))
        self.assertNotIn("signed", self.add("mail", "mail"))
        text = {
            name: (self.folder / f"alert-{name}.env").read_text()
            for name in ("own", "plain", "mail")
        }
        self.assertEqual(text["own"].count("SIGNING_SECRET"), 1)
        self.assertNotIn("SIGNING_SECRET", text["plain"] + text["mail"])

    def of_file(self, name: str, form: str, text: str, *more: str) -> Any:
        """Add a channel that a file's lines describe."""
        lines = self.folder.parent / "lines.env"
        lines.write_text(text)
        return self.ctl("alerts", "add", name, "--form", form, "--from", lines, *more)

    @proves("svcctl alerts")
    def test_a_channel_reads_its_settings_and_secrets_from_a_file(self) -> None:
        text = "# mine\nURL=https://203.0.113.9/topic\nTOKEN=tk_1\nQUIET=22:00-06:00\n"
        ran = self.of_file("phone", "ntfy", text, "--set", "QUIET=23:00-07:00")
        self.assertEqual((ran.status, ran.err), (0, ""))
        self.assertNotIn("tk_1", ran.out)
        settings = {
            name: value(self.folder, "alert-phone", name) for name in ("FORM", "URL", "TOKEN")
        }
        self.assertEqual(
            settings, {"FORM": "ntfy", "URL": "https://203.0.113.9/topic", "TOKEN": "tk_1"}
        )
        self.assertEqual(len(value(self.folder, "alert-phone", "SIGNING_SECRET")), 64)
        [listed] = self.ctl("alerts", "list", "--json").out.splitlines()
        self.assertIn("23:00-07:00", listed)  # options on the command line override the file
        self.assertEqual((self.folder / "alert-phone.env").stat().st_mode & 0o777, 0o600)

    @proves("svcctl alerts")
    def test_a_channel_reads_its_token_from_the_standard_input(self) -> None:
        words = ["alerts", "add", "room", "--form", "matrix", "--url", "https://203.0.113.9"]
        more = ["--set", "ROOM=!a:example.org", "--from", "-", "--config", str(self.folder)]
        ran = CliRunner().invoke(main, [*words, *more], input="TOKEN=syt_1\n")
        self.assertEqual((ran.exit_code, ran.stderr), (0, ""))
        self.assertEqual(value(self.folder, "alert-room", "TOKEN"), "syt_1")

    @proves("svcctl alerts")
    def test_a_secret_on_the_command_line_causes_a_warning(self) -> None:
        url = ("--url", "https://203.0.113.9/x")
        for name, form, words, exposed in (
            ("a", "json", url, "svcctl: the command line contained the URL."),
            ("b", "mail", ("--url", "smtps://mail.example"), ""),
            (
                "c",
                "mail",
                ("--url", "smtps://u:p@mail.example"),
                "svcctl: the command line contained the URL.",
            ),
            (
                "d",
                "matrix",
                (*url, "--set", "TOKEN=syt_1"),
                "svcctl: the command line contained TOKEN.",
            ),
            ("e", "json", (*url, "--set", "SIGNING_SECRET=mine"), "the URL and SIGNING_SECRET"),
            (
                "f",
                "json",
                ("--set", "URL=https://203.0.113.9/x"),
                "svcctl: the command line contained the URL.",
            ),
        ):
            ran = self.ctl("alerts", "add", name, "--form", form, *words)
            self.assertEqual(ran.status, 0, ran.err)
            self.assertIn(exposed, ran.err)
            self.assertEqual(bool(exposed), bool(ran.err), name)
            for secret in ("203.0.113.9", "syt_1", "mine"):
                self.assertNotIn(secret, ran.out + ran.err)

    def test_an_odd_address_on_the_command_line_is_one_line(self) -> None:
        for url in ("https://[::1/", "https://a..example", "https://x/\u00e9", "https://x/\udcff"):
            ran = self.ctl("alerts", "add", "a", "--form", "json", "--url", url)
            self.assertTrue(ran.line.startswith("svcctl: URL must "), ran.line)
        good = ("alerts", "add", "a", "--form", "json", "--url", "https://x/")
        for line, fault in (("TOKEN=\u20ac", "TOKEN must"), ("SIGNING_SECRET=\udcff", "not UTF-8")):
            self.assertIn(fault, self.ctl(*good, "--set", line).line)
        self.assertFalse((self.folder / "alert-a.env").exists())

    def test_an_invalid_settings_file_is_refused_with_one_line(self) -> None:
        self.assertIn("URL is missing", self.of_file("a", "json", "TOKEN=tk_1\n").line)
        self.assertIn("KEY=value lines", self.of_file("a", "json", "x" * 70_000).line)
        for name in ("nowhere", "svc.db", "."):
            ran = self.ctl("alerts", "add", "a", "--form", "json", "--from", self.folder / name)
            self.assertEqual(ran.status, 1, name)
            self.assertTrue(ran.line.startswith("svcctl: "), name)
        self.assertFalse((self.folder / "alert-a.env").exists())

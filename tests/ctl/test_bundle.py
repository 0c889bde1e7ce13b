"""``svcctl bundle`` collects what helps support to find a fault, but none of the host's secrets."""

import base64
import json
import tarfile
from pathlib import Path
from unittest import mock

from attrs import fields

from svcserver.ctl import journal
from svcserver.ctl.doctor.reading import SHAPES
from svcserver.kernel.backup_settings import BackupSettings
from svcserver.kernel.settings import BadSetting, load, parse_env_file, secret, strong_secret
from svcserver.metagame.settings import MetagameSettings
from svcserver.stack.service import StackSettings
from tests.ctl.command import svcctl
from tests.ctl.doctor_host import Quiet
from tests.ctl.hosts import change, value
from tests.ctl.test_accounts import HostCase
from tests.support.proves import proves

SECRETS = (
    ("metagame", "AUTH_SIGNING_PRIVKEY_B64"),
    ("metagame", "GATEWAY_SECRET"),
    ("gateway", "ALLOWLIST_SECRET"),
    ("deploy", "METAGAME_API_KEY"),
)
PASSWORD = "pa55-w0rd-of-mine"
QUOTED = 'my "own" key, 12'


class BundleTests(HostCase):
    def setUp(self) -> None:
        super().setUp()
        self.journal = ""  # the content of this machine's journal
        self.patch(journal, "last_lines", lambda count: self.journal)

    @proves("svcctl bundle")
    def test_the_bundle_holds_journal_lines_without_secrets(self) -> None:
        secret = value(self.folder, "metagame", "GATEWAY_SECRET")
        self.journal = f"[gateway] ready\n[gateway] it is {secret}\n"
        lines = self.made()["log.txt"].splitlines()
        self.assertEqual(lines[0], "[gateway] ready")
        self.assertNotIn(secret, lines[1])

    def test_no_output_has_a_part_of_a_password_with_an_at_sign(self) -> None:
        url = "postgresql://svc:FIRST@SECOND@127.0.0.1:1/svc"
        init = svcctl("init", self.folder / "other", "--database", url)
        change(self.folder, "metagame", "DATABASE_URL", url)
        with mock.patch("svcserver.ctl.doctor.command.Machine", Quiet):
            doctor = self.ctl("doctor")
        variables = parse_env_file((self.folder / "metagame.env").read_text())
        start = str(self.assertRaises(BadSetting, load, MetagameSettings, variables))
        shown = "".join((init.err, doctor.out, doctor.err, start, *self.made().values()))
        self.assertIn("%40", shown)
        for part in ("FIRST", "SECOND"):
            self.assertNotIn(part, shown)

    def made(self) -> dict[str, str]:
        file = self.folder / "bundle.tar.gz"
        with mock.patch("svcserver.ctl.doctor.command.Machine", Quiet):
            ran = self.ctl("bundle", file)
        self.assertEqual(ran.status, 0, ran.err)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        with tarfile.open(file) as archive:
            parts = {}
            for member in archive.getmembers():
                data = archive.extractfile(member)
                assert data is not None
                parts[member.name.removeprefix("svc-bundle/")] = data.read().decode()
        return parts

    def secrets(self) -> set[str]:
        secrets = {value(self.folder, name, variable) for name, variable in SECRETS}
        pem = (self.folder / "gateway-key.pem").read_text().splitlines()[1]
        signing = base64.b64decode(value(self.folder, *SECRETS[0])).decode().splitlines()[1]
        return secrets | {(self.folder / "owner.key").read_text().strip(), pem, signing, PASSWORD}

    @proves("svcctl bundle")
    def test_the_bundle_holds_log_versions_settings_and_doctor(self) -> None:
        (self.folder / "stack.log").write_text("one\ntwo\n")
        # so that no real metagame of this machine answers
        change(self.folder, "metagame", "PORT", "9")
        parts = self.made()
        self.assertEqual(parts["log.txt"], "one\ntwo\n")
        self.assertIn("settings/page.json", parts)
        self.assertIn("Twisted", json.loads(parts["versions.json"])["packages"])
        self.assertIsInstance(json.loads(parts["doctor.json"]), list)
        self.assertIn("PORT=9\n", parts["settings/metagame.env"])
        self.assertIn("GATEWAY_SECRET=<redacted>\n", parts["settings/metagame.env"])
        self.assertIn("does not answer", parts["status.json"])

    @proves("svcctl bundle")
    def test_the_bundle_contains_no_secret_of_the_host(self) -> None:
        change(self.folder, "metagame", "LIVE_URL", f"valkey://me:{PASSWORD}@127.0.0.1:1")
        change(self.folder, "metagame", "MY_OWN_WORD", "a word nobody knows")
        change(self.folder, "deploy", "GAMESERVER_ARGS", "-server -password=swordfish-12")
        change(self.folder, "deploy", "METAGAME_API_KEY", QUOTED)
        ways = {
            "SIGNING_SECRET": "0f1e2d-signs",
            "URL": "https://hooks.example/9f8e7d",
            "TOKEN": "t0ken-of-a-room",
            "MAIL_USER": "me",
        }
        lines = [f"{name}={text}" for name, text in {"FORM": "json", **ways}.items()]
        (self.folder / "alert-phone.env").write_text("\n".join(lines))
        secrets = self.secrets() | {ways["URL"], ways["TOKEN"], ways["SIGNING_SECRET"]}
        (self.folder / "stack.log").write_text("".join(f"seen: {word}!\n" for word in secrets))
        with mock.patch(
            "svcserver.ctl.bundle.fetch_status", return_value={"said": sorted(secrets)}
        ):
            parts = self.made()
        self.assertIn("FORM=json\n", parts["settings/alert-phone.env"])
        for name, text in parts.items():
            for word in (*secrets, "swordfish", "a word nobody knows"):
                if word in text:  # the assertion would print the secret
                    self.fail(f"a secret is in {name}")

    @proves("svcctl bundle")
    def test_the_bundle_contains_no_setting_that_is_a_secret(self) -> None:
        (self.folder / "stack.env").touch()
        planted: set[str] = set()
        for component in (*SHAPES, "stack"):
            shapes = (StackSettings, BackupSettings) if component == "stack" else SHAPES[component]
            for field in (setting for shape in shapes for setting in fields(shape)):
                name, read = field.metadata["name"], field.metadata["read"]
                if read in (secret, strong_secret):
                    planted.add(f"planted-in-{name}-0123456789")
                    change(self.folder, component, name, f"planted-in-{name}-0123456789")
                elif name.endswith("_URL"):
                    planted.add(f"word-of-{name}")
                    change(self.folder, component, name, f"postgresql://me:word-of-{name}@[::1]/x")
        self.assertGreater(len(planted), 8)
        (self.folder / "stack.log").write_text("\n".join(planted))
        for part, text in self.made().items():
            self.assertEqual([setting for setting in planted if setting in text], [], part)

    def test_the_log_that_the_stack_keeps_itself_comes_first(self) -> None:
        (self.folder / "stack.log").write_text("of svcctl up\n")
        (self.folder / "recent.log.1").write_text("before\n")
        (self.folder / "recent.log").write_text("now\n")
        self.assertEqual(self.made()["log.txt"], "before\nnow\n")
        (self.folder / "bundle.tar.gz").unlink()
        (self.folder / "data").mkdir()
        (self.folder / "stack.env").touch()
        (self.folder / "data" / "recent.log").write_text("elsewhere\n")
        change(self.folder, "stack", "DATA_DIR", "data")
        self.assertEqual(self.made()["log.txt"], "elsewhere\n")

    def test_the_bundle_holds_the_last_2000_lines_of_a_long_log(self) -> None:
        (self.folder / "stack.log").write_text("".join(f"{at:09}\n" for at in range(100_000)))
        lines = self.made()["log.txt"].splitlines()
        self.assertEqual((len(lines), lines[-1]), (2000, "000099999"))

    def test_an_existing_file_and_a_folder_that_is_no_host_are_refused(self) -> None:
        file = Path(self.folder / "mine")
        file.write_text("mine")
        with mock.patch("svcserver.ctl.doctor.command.Machine", Quiet):
            self.assertIn("cannot be written", self.ctl("bundle", file).line)
        self.assertEqual(file.read_text(), "mine")
        empty = self.folder / "empty"
        empty.mkdir()
        self.assertIn("is not the folder of a host", svcctl("bundle", "--config", empty).line)

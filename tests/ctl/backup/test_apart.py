"""The drill that verifies a backup uses only the restored host, never the running host."""

import re
from unittest import mock

import pyrage

from svcserver.ctl.backup import proving
from svcserver.ctl.backup.throwaway import ThrowAway
from svcserver.ctl.blueprint import Ports
from tests.ctl.backup.test_command import BackupCase
from tests.ctl.hosts import change, value
from tests.support.proves import proves

OURS = re.compile(r"(?m)^\w*PORT\w*=(\d+)$")


class ApartTests(BackupCase):
    def setUp(self) -> None:
        super().setUp()
        change(self.folder, "metagame", "SERVER_NAME", "Hall of Olga")
        change(self.folder, "metagame", "GUILD_MAX_MEMBERS", "7")
        change(self.folder, "metagame", "PROGRESSION_CONFIG_DIR", f"{self.folder}/seasons")
        change(self.folder, "metagame", "LIVE_URL", "valkey://10.0.0.9:6379")
        change(self.folder, "gateway", "GATEWAY_RATE_NAME", "11,2")
        change(self.folder, "allowlist", "ALLOWLIST_DRY_RUN", "0")
        change(self.folder, "deploy", "GAMESERVER_BINARY_PATH", "/srv/game/real")
        (self.folder / "seasons").mkdir()
        (self.folder / "seasons" / "one.json").write_text("{}")
        url = "https://hooks.example.org/x"
        self.assertEqual(
            self.ctl("alerts", "add", "phone", "--form", "json", "--url", url).status, 0
        )

    def drilled(self, *settings: str) -> dict[str, str]:
        """Make and verify a backup; return the contents of the files on the drill's host."""
        self.stack_env(*settings)
        texts: dict[str, str] = {}

        def start(host: ThrowAway, **_: object) -> None:
            for path in host.folder.iterdir():
                if path.suffix in (".env", ".pem"):
                    texts[path.name] = path.read_text()
            texts["folder"] = str(host.folder)

        with (
            mock.patch.object(ThrowAway, "start", start),
            mock.patch.object(proving, "_evening", lambda host: None),
            mock.patch.object(proving, "_enough_memory", lambda: None),
        ):
            ran = self.ctl("backup", "now", "--prove", "--json")
        self.assertEqual(ran.status, 0, ran.err)
        self.assertIsNotNone(ran.data["proven"])
        return texts

    def apart(self, settings: dict[str, str]) -> None:
        scratch = settings["folder"]
        self.assertNotIn(str(self.folder), "".join(settings.values()))
        self.assertNotIn("alert-phone.env", settings)
        self.assertEqual(settings["stack.env"], "BACKUP_AT=off\n")
        usual = {str(port) for port in vars_of(Ports())}
        for name in ("metagame.env", "gateway.env", "deploy.env", "content.env", "allowlist.env"):
            self.assertFalse(usual & {*OURS.findall(settings[name])}, name)
        metagame = settings["metagame.env"]
        for line in ("SERVER_NAME=Hall of Olga", "GUILD_MAX_MEMBERS=7", "REGISTRATION_MODE=OPEN"):
            self.assertIn(f"{line}\n", metagame)
        self.assertIn(f"PROGRESSION_CONFIG_DIR={scratch}/seasons\n", metagame)
        self.assertIn(f"DATABASE_URL=sqlite:///{scratch}/", metagame)
        self.assertNotIn("LIVE_URL", metagame)
        self.assertIn("GATEWAY_RATE_NAME=11,2\n", settings["gateway.env"])
        self.assertIn("ALLOWLIST_DRY_RUN=1\n", settings["allowlist.env"])
        self.assertNotIn("/srv/game/real", settings["deploy.env"])
        for name in ("GATEWAY_SECRET", "ALLOWLIST_SECRET"):
            addresses = {
                word
                for text in settings.values()
                for word in re.findall(f"(?m)^{name}=(.*)$", text)
            }
            self.assertEqual(len(addresses), 1, name)

    @proves("svcctl backup now|list|prove|restore")
    def test_a_drill_of_a_backup_without_secrets_uses_new_secrets(self) -> None:
        settings = self.drilled()
        self.apart(settings)
        key = value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64")
        self.assertNotIn(key, settings["metagame.env"])

    @proves("svcctl backup now|list|prove|restore")
    def test_a_drill_of_a_backup_with_secrets_uses_its_key_and_cert(self) -> None:
        own = pyrage.x25519.Identity.generate()
        settings = self.drilled(f"BACKUP_RECIPIENTS={own.to_public()}", "BACKUP_SECRETS=1")
        self.apart(settings)
        self.assertIn(
            value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64"), settings["metagame.env"]
        )
        certificate = (self.folder / "gateway-cert.pem").read_text()
        self.assertEqual(settings["gateway-cert.pem"], certificate)

    def test_a_drill_of_a_host_without_a_gateway_configures_a_gateway(self) -> None:
        for name in ("gateway", "allowlist", "relay"):
            (self.folder / f"{name}.env").unlink()
        change(self.folder, "metagame", "BIND_HOST", "100.64.0.9")
        settings = self.drilled()
        self.assertIn("BIND_HOST=127.0.0.1\n", settings["metagame.env"])
        self.assertIn("GATEWAY_PORT=", settings["gateway.env"])
        self.assertIn("gateway-cert.pem", settings)


def vars_of(ports: Ports) -> list[int]:
    """Return every port setting of a host that ``svcctl init`` made."""
    return [getattr(ports, name) for name in Ports.__slots__ if name != "__weakref__"]

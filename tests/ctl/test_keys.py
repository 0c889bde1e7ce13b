"""``svcctl keys``: signing keys renewed and retired. Spec: 1 §5, design §9."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from svcserver.ctl.envfile import change
from svcserver.ctl.host import find
from svcserver.metagame.access.keys import Keys
from svcserver.metagame.access.tokens import InvalidToken, Tokens
from svcserver.metagame.settings import Settings
from tests.ctl.command import svcctl
from tests.ctl.hosts import value
from tests.ctl.test_accounts import HostCase


class KeysTests(HostCase):
    @property
    def file(self) -> Path:
        return self.folder / "metagame.env"

    def tokens(self) -> Tokens:
        """As the metagame has them after a restart."""
        settings = find(str(self.folder), None).settings("metagame", Settings)
        keys = Keys.read(
            settings.signing_private_key, settings.signing_public_key, settings.verify_keys
        )
        return Tokens(time.time, keys)

    def age(self, hours: float) -> None:
        """The last rotation was so long ago."""
        at = datetime.now(UTC) - timedelta(hours=hours)
        change(self.file, {}, {"svcctl keys rotate": f"{at:%Y-%m-%dT%H:%M:%SZ}"})

    def test_a_rotation_logs_nobody_out(self) -> None:
        before = self.tokens().sign("UID-ann")
        said = self.ctl("keys", "rotate", "--json").data
        after = self.tokens().sign("UID-ann")
        for token in (before, after):
            self.assertEqual(self.tokens().verify(token), "UID-ann")
        self.assertEqual(self.ctl("keys", "list", "--json").data, said)
        self.assertEqual(list(self.tokens().keys.public), [said["signing"], *said["verifying"]])
        self.age(24.1)
        self.assertEqual(self.ctl("keys", "retire").status, 0)
        self.assertEqual(self.tokens().verify(after), "UID-ann")
        self.assertRaises(InvalidToken, self.tokens().verify, before)

    def test_a_key_is_not_retired_while_its_tokens_live_unless_told_to(self) -> None:
        self.assertEqual(self.ctl("keys", "retire").status, 1)
        self.ctl("keys", "rotate")
        self.age(23.9)
        ran = self.ctl("keys", "retire")
        self.assertEqual(ran.status, 1)
        self.assertIn("--now", ran.line)
        self.assertEqual(self.ctl("keys", "retire", "--now").status, 0)
        self.assertEqual(len(self.tokens().keys.public), 1)

    def test_where_nobody_noted_when_the_file_tells(self) -> None:
        self.ctl("keys", "rotate")
        text = self.file.read_text()
        self.file.write_text(re.sub(r"(?m)^# svcctl keys rotate.*\n", "", text))
        self.assertEqual(self.ctl("keys", "retire").status, 1)

    def test_the_rest_of_the_file_its_mode_and_other_keys_stay(self) -> None:
        self.file.write_text(self.file.read_text() + "# mine\nSERVER_NAME='A B'\n")
        before = self.file.read_text()
        self.ctl("keys", "rotate")
        self.ctl("keys", "rotate")
        after = self.file.read_text()
        ours = re.compile(r"(?m)^(AUTH_(?:SIGNING|VERIFY)_\w+=.*|# svcctl keys rotate.*)\n")
        self.assertEqual(ours.sub("", after), ours.sub("", before))
        self.assertEqual(len(ours.findall(after)), 4)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(len(self.tokens().keys.public), 3)
        self.assertNotIn(value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64"), before)

    def test_no_key_is_shown(self) -> None:
        ran = self.ctl("keys", "rotate")
        secret = value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64")
        self.assertNotIn(secret, ran.out)
        self.assertRegex(ran.out, r"[\w-]{43} +signs\n[\w-]{43} +verifies")

    def test_too_many_and_no_usable_key(self) -> None:
        for _ in range(8):
            self.assertEqual(self.ctl("keys", "rotate").status, 0)
        self.assertIn("svcctl keys retire", self.ctl("keys", "rotate").line)
        self.ctl("keys", "retire", "--now")
        change(self.file, {"AUTH_SIGNING_PUBKEY_B64": "nonsense"})
        self.assertIn("AUTH_SIGNING_PUBKEY_B64", self.ctl("keys", "rotate").line)

    def test_settings_of_the_environment_alone_cannot_be_changed(self) -> None:
        self.assertIn("--config", svcctl("keys", "rotate").line)

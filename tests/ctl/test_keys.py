"""``svcctl keys``: the renewal and retirement of signing keys. Spec: 1 §5, design §9."""

import re
import time
from pathlib import Path
from unittest import mock

from svcserver.ctl.host import find
from svcserver.kernel.envfile import change
from svcserver.metagame import service
from svcserver.metagame.access.keys import Keys
from svcserver.metagame.access.tokens import InvalidToken, Tokens
from svcserver.metagame.service import open_database
from svcserver.metagame.settings import MetagameSettings
from tests.ctl.command import svcctl
from tests.ctl.doctor_host import DoctorCase, Quiet
from tests.ctl.hosts import value


class KeysTests(DoctorCase):
    @property
    def file(self) -> Path:
        return self.folder / "metagame.env"

    def tokens(self) -> Tokens:
        """Return a ``Tokens`` with the keys that the metagame has after a restart."""
        settings = find(str(self.folder), None).settings("metagame", MetagameSettings)
        keys = Keys.parse_pem(
            settings.signing_private_key, settings.signing_public_key, settings.verify_keys
        )
        return Tokens(time.time, keys)

    def start(self, hours_ago: float = 0) -> None:
        """Start the metagame with the current settings and a clock that is ``hours_ago`` behind."""
        then = time.time() - hours_ago * 3600
        settings = find(str(self.folder), None).settings("metagame", MetagameSettings)
        with mock.patch.object(service, "epoch", lambda: then):
            open_database("svc-metagame", settings).dispose()

    def test_a_rotation_logs_nobody_out(self) -> None:
        self.start(hours_ago=100)
        before = self.tokens().sign("UID-ann")
        data = self.ctl("keys", "rotate", "--json").data
        after = self.tokens().sign("UID-ann")
        for token in (before, after):
            self.assertEqual(self.tokens().verify(token), "UID-ann")
        self.assertEqual(self.ctl("keys", "list", "--json").data, data)
        self.assertEqual(list(self.tokens().keys.public), [data["signing"], *data["verifying"]])
        self.start(hours_ago=24.1)
        self.start()  # another start changes nothing
        self.assertEqual(self.ctl("keys", "retire").status, 0)
        self.assertEqual(self.tokens().verify(after), "UID-ann")
        self.assertRaises(InvalidToken, self.tokens().verify, before)

    def test_a_key_with_valid_tokens_is_retired_only_with_now(self) -> None:
        self.assertEqual(self.ctl("keys", "retire").status, 1)
        self.start(hours_ago=100)
        self.ctl("keys", "rotate")
        self.start(hours_ago=23.9)
        ran = self.ctl("keys", "retire")
        self.assertEqual(ran.status, 1)
        self.assertIn("--now", ran.line)
        self.assertEqual(self.ctl("keys", "retire", "--now").status, 0)
        self.assertEqual(len(self.tokens().keys.public), 1)

    def test_retire_is_refused_before_the_first_start_with_the_new_key(self) -> None:
        for hours in (None, 100):  # the metagame never ran, or ran before
            if hours is not None:
                self.start(hours_ago=hours)
            self.ctl("keys", "rotate")
            ran = self.ctl("keys", "retire")
            self.assertEqual(ran.status, 1)
            self.assertIn("still signs with the old key", ran.line)

    def test_the_doctor_says_when_to_restart_and_when_the_old_key_may_go(self) -> None:
        self.start(hours_ago=100)
        self.ctl("keys", "rotate")
        self.assertIn(
            "still signs with the key that svcctl keys rotate replaced; restart the", self.notes()
        )
        self.start(hours_ago=23)
        self.assertNotIn("svcctl keys", self.notes())
        later = Quiet(at=time.time() + 2 * 3600)
        self.assertIn("run svcctl keys retire and restart the metagame", self.notes(later))
        self.assertEqual(self.wrong(later), [])

    def test_a_return_to_the_old_key_begins_the_wait_again(self) -> None:
        self.start(hours_ago=100)
        old = self.file.read_text()
        self.ctl("keys", "rotate")
        self.start(hours_ago=50)
        newer = value(self.folder, "metagame", "AUTH_SIGNING_PUBKEY_B64")
        self.file.write_text(old)
        change(self.file, {"AUTH_VERIFY_KEYS_B64": newer})
        self.assertEqual(self.ctl("keys", "retire").status, 1)  # not yet restarted
        self.start(hours_ago=1)
        self.assertIn("until", self.ctl("keys", "retire").line)

    def test_the_rest_of_the_file_its_mode_and_other_keys_stay(self) -> None:
        self.file.write_text(self.file.read_text() + "# mine\nSERVER_NAME='A B'\n")
        before = self.file.read_text()
        self.ctl("keys", "rotate")
        self.ctl("keys", "rotate")
        after = self.file.read_text()
        ours = re.compile(r"(?m)^AUTH_(?:SIGNING|VERIFY)_\w+=.*\n")
        self.assertEqual(ours.sub("", after), ours.sub("", before))
        self.assertEqual(len(ours.findall(after)), 3)
        self.assertEqual(self.file.stat().st_mode & 0o777, 0o600)
        self.assertEqual(len(self.tokens().keys.public), 3)
        self.assertNotIn(value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64"), before)

    def test_rotate_prints_fingerprints_and_no_key(self) -> None:
        ran = self.ctl("keys", "rotate")
        secret = value(self.folder, "metagame", "AUTH_SIGNING_PRIVKEY_B64")
        self.assertNotIn(secret, ran.out)
        self.assertRegex(ran.out, r"[\w-]{43} +signs\n[\w-]{43} +verifies")

    def test_rotate_is_refused_for_too_many_or_unusable_keys(self) -> None:
        for _ in range(8):
            self.assertEqual(self.ctl("keys", "rotate").status, 0)
        self.assertIn("svcctl keys retire", self.ctl("keys", "rotate").line)
        self.ctl("keys", "retire", "--now")
        change(self.file, {"AUTH_SIGNING_PUBKEY_B64": "nonsense"})
        self.assertIn("AUTH_SIGNING_PUBKEY_B64", self.ctl("keys", "rotate").line)

    def test_settings_of_the_environment_alone_cannot_be_changed(self) -> None:
        self.assertIn("--config", svcctl("keys", "rotate").line)

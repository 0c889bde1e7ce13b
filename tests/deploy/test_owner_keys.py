"""The signing keys whose tickets open the deploy server's routes for the owner."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from svcserver.deploy.service import FILE, SigningKeys
from svcserver.kernel.machine import SIGNING_KEY
from svcserver.kernel.secrets import Secret


class SigningKeysTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.file, self.written = folder / FILE, 0
        self.keys = SigningKeys.beside(str(folder / "deploy.env"))

    def write(self, text: str) -> None:
        self.written += 1
        self.file.write_text(text)
        os.utime(self.file, ns=(self.written, self.written))

    def test_the_key_beside_the_env_file_counts(self) -> None:
        self.write(f"PORT=61000\n{SIGNING_KEY}=first\n")
        self.assertEqual((self.keys(), self.keys.warning()), (["first"], ""))
        self.assertNotIn("first", repr(self.keys))

    def test_after_a_rotation_the_key_before_it_counts_too(self) -> None:
        for key in ("first", "second", "second", "third"):
            self.write(f"{SIGNING_KEY}={key}\n")
            self.keys()
        self.assertEqual(self.keys(), ["third", "second"])

    def test_a_file_that_is_away_for_a_moment_takes_no_key_back(self) -> None:
        self.write(f"{SIGNING_KEY}=first\n")
        self.keys()
        self.file.unlink()
        self.assertEqual(self.keys(), ["first"])

    def test_without_a_key_one_line_names_the_file_and_the_cure(self) -> None:
        for text in ("", "PORT=1\n", f"{SIGNING_KEY}=\n"):
            self.write(text)
            self.assertIn(str(self.file), self.keys.warning())
            self.assertIn("--env-file", self.keys.warning())

    def test_a_key_in_the_environment_wins(self) -> None:
        self.write(f"{SIGNING_KEY}=first\n")
        keys = SigningKeys.beside(str(self.file), Secret("given"))
        self.assertEqual(keys(), ["given"])

"""Versions and names at their edges. Spec: 1 §2 Character."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.characters.rules import Document, name, version

MOST = 2**53 - 1


class EdgeTests(SynchronousTestCase):
    def test_a_version_is_a_safe_whole_number_or_its_digits(self) -> None:
        for sent in (0, MOST):
            for same in (sent, str(sent), f"{sent:016}"):
                self.assertEqual(version(same), sent)
        self.assertEqual(version(3.0), 3)
        for bad in (-1, MOST + 1, str(MOST + 1), "0" * 17, "", "-1", "1.0", 0.5, True, None, []):
            self.assertRaises(Malformed, version, bad)

    def test_a_name_has_1_to_64_characters(self) -> None:
        for good in ("x", "x" * 64):
            self.assertEqual(name(good), good)
        for bad in ("", "x" * 65, "a\0b", None, 5):
            self.assertRaises(Malformed, name, bad)

    def test_a_save_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(Document(b'"secret"', 8)))

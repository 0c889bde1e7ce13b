"""Versions and names at their edges. Spec: 1 §2 Character."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.characters.wire import CharacterSave, NewCharacter
from svcserver.metagame.belongings.documents import EMPTY, Document, document

MOST = 2**53 - 1
read_save, read_new = reader(CharacterSave), reader(NewCharacter)


def version(sent: Any) -> int:
    found: int = read_save({"updateVersion": sent}).update_version
    return found


def name(sent: Any) -> str:
    found: str = read_new({"name": sent}).name
    return found


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

    def test_a_document_is_the_text_of_an_object_of_at_most_so_many_bytes(self) -> None:
        umlauts = '{"a":"\u00e4\u00e4"}'  # ten characters
        for most, text in ((2, "{}"), (12, umlauts)):
            kept = document(text, most)
            self.assertEqual((kept.literal, kept.size), (json.dump(text), most))
            refused = self.assertRaises(Malformed, document, text, most - 1)
            self.assertEqual(refused.message, "data is too large")
        self.assertEqual(document('{"a":"' + "x" * 524_280 + '"}').size, 524_288)
        self.assertRaises(Malformed, document, '{"a":"' + "x" * 524_281 + '"}')

    def test_what_is_no_object_is_no_document(self) -> None:
        for text in ("", " ", "[]", "7", "{", "null", '"{}"'):
            refused = self.assertRaises(Malformed, document, text)
            self.assertEqual(refused.message, "data must be the JSON text of an object")

    def test_an_empty_document_is_two_bytes(self) -> None:
        self.assertEqual(document("{}"), EMPTY)

    def test_a_save_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(Document(b'"secret"', 8)))

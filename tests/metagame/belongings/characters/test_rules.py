"""Character versions, names, documents and saves. Spec: 1 §2, §4 Characters."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.characters import rules, wire
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.characters.wire import CharacterSave, NewCharacter
from svcserver.metagame.belongings.documents import EMPTY, Document, document
from tests.support.ledger import InstantLedger

MOST = 2**53 - 1
read_save, read_new = reader(CharacterSave), reader(NewCharacter)


def version(sent: Any) -> int:
    result: int = read_save({"updateVersion": sent}).update_version
    return result


def name(sent: Any) -> str:
    result: str = read_new({"name": sent}).name
    return result


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
            result = document(text, most)
            self.assertEqual((result.literal, result.size), (json.dump(text), most))
            refused = self.assertRaises(Malformed, document, text, most - 1)
            self.assertEqual(refused.message, "data is too large")
        self.assertEqual(document('{"a":"' + "x" * 524_280 + '"}').size, 524_288)
        self.assertRaises(Malformed, document, '{"a":"' + "x" * 524_281 + '"}')

    def test_only_the_text_of_an_object_is_a_document(self) -> None:
        for text in ("", " ", "[]", "7", "{", "null", '"{}"'):
            refused = self.assertRaises(Malformed, document, text)
            self.assertEqual(refused.message, "data must be the JSON text of an object")

    def test_an_empty_document_is_two_bytes(self) -> None:
        self.assertEqual(document("{}"), EMPTY)

    def test_a_save_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(Document(b'"secret"', 8)))


ANN = AccountId("UID-ann")
HERS = Head(CharacterId("hers"), ANN, "Ann", 5, 1.0, 2.0)
NEW = Document(b'"new"', 5)


class SavingTests(SynchronousTestCase):
    def test_a_newer_version_replaces_only_the_document(self) -> None:
        saved = rules.check_save(HERS, ANN, 7).saved(NEW, 7, 9.0)
        self.assertEqual(saved, Character(HERS.id, ANN, "Ann", 7, 1.0, 9.0, NEW))


class FirstTests(SynchronousTestCase):
    def test_the_first_character_gets_the_username(self) -> None:
        def work(tx: Any) -> None:
            characters = SqlCharacters(tx)
            [first] = characters.all_of(ANN, "x" * 65, 3.0)
            self.assertEqual((first.name, first.update_version, first.data), ("x" * 64, 0, EMPTY))
            self.assertEqual((first.created_at, first.modified_at), (3.0, 3.0))
            self.assertEqual(characters.all_of(ANN, "Other", 4.0), [first])

        InstantLedger().run(work)


class ShownTests(SynchronousTestCase):
    def test_a_character_is_shown_with_its_document_as_a_text(self) -> None:
        data = document('{"a":"ä"}')
        character = Character(CharacterId("c"), AccountId("UID-a"), "Ann", 7, 0.0, 86_400.0, data)
        reply = json.parse(json.dump(wire.show_character(character)))
        self.assertEqual(set(reply), set(wire.CharacterReply.__annotations__))
        self.assertEqual(
            {key: reply[key] for key in ("accountId", "id", "name", "updateVersion", "data")},
            {
                "accountId": "UID-a",
                "id": "c",
                "name": "Ann",
                "updateVersion": 7,
                "data": '{"a":"ä"}',
            },
        )
        self.assertIn("1970", reply["createdDate"])
        self.assertNotEqual(reply["createdDate"], reply["lastModifiedDate"])

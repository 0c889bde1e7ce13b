"""The saves that count, and the first characters of an account. Spec: 1 §2, §4 Characters."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Missing
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.characters.store import SqlCharacters
from svcserver.metagame.belongings.documents import EMPTY, Document
from tests.support.ledger import InstantLedger

ANN, BOB = AccountId("UID-ann"), AccountId("UID-bob")
HERS = Head(CharacterId("hers"), ANN, "Ann", 5, 1.0, 2.0)
NEW = Document(b'"new"', 5)


class SavingTests(SynchronousTestCase):
    def test_a_newer_version_replaces_only_the_document(self) -> None:
        saved = rules.check_save(HERS, ANN, 7).saved(NEW, 7, 9.0)
        self.assertEqual(saved, Character(HERS.id, ANN, "Ann", 7, 1.0, 9.0, NEW))

    def test_the_same_version_or_an_older_one_conflicts(self) -> None:
        for version in (4, 5):
            self.assertRaises(Conflict, rules.check_save, HERS, ANN, version)

    def test_a_character_of_another_account_is_missing(self) -> None:
        for head, account_id in ((HERS, BOB), (None, ANN)):
            self.assertRaises(Missing, rules.check_save, head, account_id, 7)

    def test_the_reasons_in_the_history(self) -> None:
        reasons = [rules.reason_of(game_server=game_server) for game_server in (False, True)]
        self.assertEqual([*reasons, rules.BASELINE], ["save:client", "save:gameserver", "baseline"])


class FirstTests(SynchronousTestCase):
    def setUp(self) -> None:
        ledger = InstantLedger()
        self.run_in_transaction = ledger.run

    def test_the_first_character_gets_the_username(self) -> None:
        def work(tx: object) -> None:
            characters = SqlCharacters(tx)
            [first] = characters.all_of(ANN, "x" * 65, 3.0)
            self.assertEqual((first.name, first.update_version, first.data), ("x" * 64, 0, EMPTY))
            self.assertEqual((first.created_at, first.modified_at), (3.0, 3.0))
            self.assertEqual(characters.all_of(ANN, "Other", 4.0), [first])

        self.run_in_transaction(work)

    def test_an_account_has_at_most_twenty_characters(self) -> None:
        def work(tx: object) -> None:
            characters = SqlCharacters(tx)
            for number in range(20):
                made = characters.create(ANN, f"n{number}", 3.0)
                self.assertEqual((made.name, made.update_version), (f"n{number}", 0))
            self.assertEqual(len({one.id for one in characters.of_account(ANN)}), 20)
            self.assertRaises(Conflict, characters.create, ANN, "one more", 3.0)
            self.assertEqual(characters.create(BOB, "his", 3.0).account_id, BOB)

        self.run_in_transaction(work)

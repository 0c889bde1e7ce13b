"""Which saves count, without a database. Spec: 1 §2 Character, §4 Characters."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.ids import AccountId, CharacterId
from svcserver.kernel.refusals import Conflict, Malformed, Missing
from svcserver.metagame.belongings.characters import rules
from svcserver.metagame.belongings.characters.rules import Character, Head
from svcserver.metagame.belongings.documents import EMPTY, Document

ANN, BOB = AccountId("UID-ann"), AccountId("UID-bob")
HERS = CharacterId("hers")
OLD, NEW = Document(b'"old"', 5), Document(b'"new"', 5)


@define
class Kept:
    """Characters in a list; ``reasons`` of the saves."""

    found: list[Character] = field(factory=list)
    reasons: list[str] = field(factory=list)

    def of_account(self, account_id: AccountId) -> list[Character]:
        return [one for one in self.found if one.account_id == account_id]

    def find(self, character_id: CharacterId) -> Head | None:
        return next((one for one in self.found if one.id == character_id), None)

    def count(self, account_id: AccountId) -> int:
        return len(self.of_account(account_id))

    def create(self, character: Character) -> None:
        self.found.append(character)

    def save(self, character: Character, reason: str) -> None:
        self.found = [character if one.id == character.id else one for one in self.found]
        self.reasons.append(reason)


def refused() -> Document:
    raise Malformed("no document")


class SavingTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.hers = Character(HERS, ANN, "Ann", 5, 1.0, 2.0, OLD)
        other = Character(CharacterId("other"), ANN, "Second", 5, 1.0, 2.0, NEW)
        self.kept = Kept([other, self.hers])

    def save(
        self,
        version: int,
        *,
        document: Callable[[], Document] = lambda: NEW,
        who: AccountId = ANN,
        which: CharacterId | None = HERS,
    ) -> Character:
        return rules.save(self.kept, who, which, version, document, 9.0, "why")

    def test_a_newer_version_replaces_the_document_and_nothing_else(self) -> None:
        saved = self.save(7)
        self.assertEqual(saved, Character(HERS, ANN, "Ann", 7, 1.0, 9.0, NEW))
        self.assertEqual(self.kept.find(HERS), saved)
        self.assertEqual(self.kept.reasons, ["why"])

    def test_the_same_version_or_an_older_one_changes_nothing(self) -> None:
        for version in (4, 5):
            self.assertRaises(Conflict, self.save, version)
        self.assertEqual((self.kept.find(HERS), self.kept.reasons), (self.hers, []))

    def test_another_accounts_character_is_missing_and_so_is_none(self) -> None:
        for who, which in ((BOB, HERS), (ANN, CharacterId("nobodys")), (ANN, None)):
            self.assertRaises(Missing, self.save, 7, who=who, which=which, document=refused)
        self.assertEqual(self.kept.reasons, [])

    def test_a_document_is_read_only_where_the_save_would_count(self) -> None:
        self.assertRaises(Conflict, self.save, 5, document=refused)
        self.assertRaises(Malformed, self.save, 6, document=refused)
        self.assertEqual(self.kept.find(HERS), self.hers)

    def test_the_history_says_who_has_saved(self) -> None:
        said = [rules.reason_of(game_server=one) for one in (False, True)]
        self.assertEqual([*said, rules.BASELINE], ["save:client", "save:gameserver", "baseline"])


class FirstTests(SynchronousTestCase):
    def test_an_account_without_a_character_gets_one_with_its_name(self) -> None:
        kept = Kept()
        [first] = rules.all_of(kept, ANN, "x" * 65, 3.0)
        self.assertEqual((first.name, first.update_version, first.data), ("x" * 64, 0, EMPTY))
        self.assertEqual((first.created_at, first.modified_at), (3.0, 3.0))
        self.assertEqual(kept.found, [first])
        self.assertEqual(rules.all_of(kept, ANN, "Other", 4.0), [first])

    def test_an_account_has_at_most_twenty_characters(self) -> None:
        kept = Kept()
        for number in range(20):
            made = rules.create(kept, ANN, f"n{number}", 3.0)
            self.assertEqual((made.name, made.update_version), (f"n{number}", 0))
        self.assertEqual(len({one.id for one in kept.found}), 20)
        self.assertRaises(Conflict, rules.create, kept, ANN, "one more", 3.0)
        self.assertEqual(rules.create(kept, BOB, "his", 3.0).account_id, BOB)
        self.assertEqual(len(kept.found), 21)

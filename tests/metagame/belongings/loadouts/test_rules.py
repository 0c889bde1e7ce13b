"""Which slots may be saved, and what is kept before the first save. Spec: 1 §4 Loadouts."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.belongings.loadouts import rules
from svcserver.metagame.belongings.loadouts.rules import Defaults, Loadout
from svcserver.metagame.belongings.loadouts.store import SqlLoadouts
from tests.support.ledger import InstantLedger


class ElementTests(SynchronousTestCase):
    def test_an_index_names_an_unlocked_slot_or_the_persistent_part(self) -> None:
        names = [rules.element(index, 2) for index in ("0", "1", "persistent")]
        self.assertEqual(names, ["0", "1", "persistent"])
        for index in ("2", "-1", "x", ""):
            self.assertRaises(Malformed, rules.element, index, 2)

    def test_players_equipment_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(Defaults(b'{"secret":0}', b'{"secret":1}')))


class RollbackTests(SynchronousTestCase):
    def test_an_old_version_becomes_the_newest(self) -> None:
        def work(tx: Any) -> None:
            store = SqlLoadouts(tx)
            for version, data in ((3, b"old"), (4, b"new")):
                store.save(Loadout("c", version=version), {"0": data}, 0, "by me")
            self.assertEqual(store.roll_back("c", 3, 7.5), Loadout("c", version=5))
            self.assertEqual(store.elements(Loadout("c")), {"0": b"old"})
            self.assertRaises(Missing, store.roll_back, "c", 2, 7.5)
            self.assertRaises(Missing, store.roll_back, "d", 1, 7.5)

        InstantLedger().run(work)

"""Loadout slots, their roll-back and their wire format. Spec: 1 §4 Loadouts."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.loadouts import wire
from svcserver.metagame.belongings.loadouts.rules import Defaults, Loadout


class ElementTests(SynchronousTestCase):
    def test_players_equipment_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(Defaults(b'{"secret":0}', b'{"secret":1}')))


THREE = Loadout(CharacterId("c"), character_slots=3, active_index=2, version=7)


class CountTests(SynchronousTestCase):
    def test_slot_counts_are_real_or_fixed_at_one(self) -> None:
        for real, counted in ((True, (1, 1, 3, 5)), (False, (1, 1, 1, 1))):
            counts = wire.counts(THREE, real=real)
            names = "num_account_slots max_account_slots num_character_slots max_character_slots"
            self.assertEqual(counts, dict(zip(names.split(), counted, strict=True)))

    def test_saved_slots_come_in_order_with_the_active_slot(self) -> None:
        elements = {"1": b'{"b":1}', "persistent": b'{"p":1}', "0": b'{"a":1}'}
        for real, active in ((True, 2), (False, 0)):
            payload = json.parse(json.dump(wire.show_loadouts(THREE, elements, real=real)))[
                "payload"
            ]
            self.assertEqual(payload["loadouts"], [{"a": 1}, {"b": 1}])
            self.assertEqual(payload["persistent"], {"p": 1})
            self.assertEqual((payload["active_index"], payload["needs_migration"]), (active, False))

    def test_a_slot_is_kept_as_sent_with_its_own_number(self) -> None:
        for data, name, expected in (
            ('{"slot_index": 2}', "2", b'{"slot_index": 2}'),
            ('{"slot_index": 2}', "1", b'{"slot_index":1}'),
            ('{"a":  1}', "0", b'{"a":1,"slot_index":0}'),
            ('{"a":  1}', "persistent", b'{"a":  1}'),
        ):
            self.assertEqual(wire.LoadoutSave(data).element(name), expected)
        for bad in ("[]", "7", ""):
            self.assertRaises(Malformed, wire.LoadoutSave(bad).element, "0")

"""Slots as the client counts them. Spec: 1 §4 Loadouts."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import json
from svcserver.kernel.ids import CharacterId
from svcserver.kernel.refusals import Malformed
from svcserver.metagame.belongings.loadouts import wire
from svcserver.metagame.belongings.loadouts.rules import Loadout

THREE = Loadout(CharacterId("c"), character_slots=3, active_index=2, version=7)


class CountTests(SynchronousTestCase):
    def test_slots_are_counted_or_one_of_each(self) -> None:
        for real, counted in ((True, (1, 1, 3, 5)), (False, (1, 1, 1, 1))):
            said = wire.counts(THREE, real=real)
            names = "num_account_slots max_account_slots num_character_slots max_character_slots"
            self.assertEqual(said, dict(zip(names.split(), counted, strict=True)))

    def test_saved_slots_come_in_order_with_the_active_one(self) -> None:
        elements = {"1": b'{"b":1}', "persistent": b'{"p":1}', "0": b'{"a":1}'}
        for real, active in ((True, 2), (False, 0)):
            said = json.parse(json.dump(wire.show(THREE, elements, real=real)))["payload"]
            self.assertEqual(said["loadouts"], [{"a": 1}, {"b": 1}])
            self.assertEqual(said["persistent"], {"p": 1})
            self.assertEqual((said["active_index"], said["needs_migration"]), (active, False))

    def test_a_slot_is_kept_as_sent_with_its_own_number(self) -> None:
        for data, name, kept in (
            ('{"slot_index": 2}', "2", b'{"slot_index": 2}'),
            ('{"slot_index": 2}', "1", b'{"slot_index":1}'),
            ('{"a":  1}', "0", b'{"a":1,"slot_index":0}'),
            ('{"a":  1}', "persistent", b'{"a":  1}'),
        ):
            self.assertEqual(wire.LoadoutSave(data).element(name), kept)
        for bad in ("[]", "7", ""):
            self.assertRaises(Malformed, wire.LoadoutSave(bad).element, "0")

    def test_activating_says_ok_without_a_payload(self) -> None:
        self.assertEqual(wire.ACTIVATED, {"code": None, "message": "OK"})

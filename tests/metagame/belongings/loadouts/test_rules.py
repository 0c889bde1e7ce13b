"""Which slots may be saved, and what is kept before the first save. Spec: 1 §4 Loadouts."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.belongings.loadouts import rules
from svcserver.metagame.belongings.loadouts.rules import Change, Defaults, Loadout

DEFAULTS = Defaults(b'{"secret":0}', b'{"secret":1}')


class FakeLoadouts:
    """One character's loadout; ``log`` is every version that was written."""

    def __init__(self, held: Loadout | None = None) -> None:
        self.held = held
        self.log: list[tuple[int, str, int]] = []

    def owner(self, character_id: str) -> str:
        return "UID-a"

    def find(self, character_id: str) -> Loadout | None:
        return self.held

    def put(self, loadout: Loadout) -> None:
        self.held = loadout

    def save(
        self,
        loadout: Loadout,
        changed: Mapping[str, bytes],
        at_ms: int,
        reason: str,
        request_id: str = "",
    ) -> None:
        self.held = loadout
        self.log.append((loadout.version, reason, at_ms))

    def elements(self, loadout: Loadout) -> dict[str, bytes]:
        return {}

    def saved(self, character_id: str, version: int) -> str | None:
        return "held" if version == 1 else None

    def restore(self, loadout: Loadout, held: str, at_ms: int, reason: str) -> None:
        self.held = loadout
        self.log.append((loadout.version, f"{reason} {held}", at_ms))


class SaveTests(SynchronousTestCase):
    def save(self, kept: FakeLoadouts, index: str, *, real: bool) -> Loadout:
        return rules.save(
            kept, "UID-a", "c", Change(index, lambda name: b"{}", "by me"), DEFAULTS, 7.5, real=real
        )[0]

    def test_the_defaults_are_a_version_of_their_own(self) -> None:
        kept = FakeLoadouts()
        self.assertEqual(self.save(kept, "1", real=True).version, 2)
        self.save(kept, "0", real=True)
        self.assertEqual(kept.log, [(1, "baseline", 7500), (2, "by me", 7500), (3, "by me", 7500)])

    def test_fixed_loadouts_have_slot_0_alone(self) -> None:
        self.save(FakeLoadouts(), "0", real=False)
        self.save(FakeLoadouts(), "persistent", real=False)
        self.assertRaises(Malformed, self.save, FakeLoadouts(), "1", real=False)
        self.assertRaises(Malformed, self.save, FakeLoadouts(), "2", real=True)

    def test_an_old_version_becomes_the_newest(self) -> None:
        kept = FakeLoadouts(Loadout("c", version=4))
        self.assertEqual(rules.roll_back(kept, "c", 1, 7.5), Loadout("c", version=5))
        self.assertEqual(kept.log, [(5, "rollback:1 held", 7500)])
        self.assertRaises(Missing, rules.roll_back, kept, "c", 2, 7.5)
        self.assertRaises(Missing, rules.roll_back, FakeLoadouts(), "c", 1, 7.5)

    def test_what_players_wear_is_in_no_repr(self) -> None:
        self.assertNotIn("secret", repr(DEFAULTS))

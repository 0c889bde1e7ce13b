"""A sealed entry is ignored unless this host wrote it with the same key and stamp."""

import sys
from typing import Any

from attrs import evolve
from twisted.logger import capturedLogs
from twisted.trial.unittest import SynchronousTestCase

import svcserver.metagame.composition  # noqa: F401 - with the modules of all kinds
from svcserver.board.engine_transaction import Seal, Values, name_of
from svcserver.board.kinds import Kind
from svcserver.board.scripts import STAMP

STAMP_1, STAMP_2 = b"x" * STAMP, b"y" * STAMP
OURS = Seal(b"the host's key")
# these entries grant no rights: SECURITY.md
UNSEALED = {"evening", "evening_look", "online", "party_heard"}


def kinds() -> dict[str, Kind[Any]]:
    """Return a dict from name to kind, with every kind of entry that a metagame module defines."""
    modules = [module for name, module in sys.modules.items() if name.startswith("svcserver.")]
    values = [value for module in modules for value in vars(module).values()]
    return {kind.name: kind for kind in values if isinstance(kind, Kind)}


class EveryKindTests(SynchronousTestCase):
    def test_only_kinds_that_grant_nothing_are_unsealed(self) -> None:
        unsealed = {name for name, kind in kinds().items() if not kind.sealed}
        self.assertEqual(unsealed, UNSEALED)

    def test_forged_copied_and_restamped_entries_are_absent(self) -> None:
        sealed = [evolve(kind, shape=str) for kind in kinds().values() if kind.sealed]
        self.assertGreater(len(sealed), 15)
        for kind, another in zip(sealed, [*sealed[1:], sealed[0]], strict=True):
            values = Values(10, OURS, lambda: 0.0)
            data, name = kind.encode("granted"), name_of(kind, "ann")
            entry = STAMP_1 + OURS.close(name, STAMP_1, data)
            self.assertEqual(values.decode((kind, "ann"), entry), "granted")
            with capturedLogs() as events:
                for forged in (
                    STAMP_2 + data,
                    STAMP_2 + Seal(b"").close(name, STAMP_2, data),
                    STAMP_2 + Seal(b"a stranger's key").close(name, STAMP_2, data),
                    STAMP_2 + entry[STAMP:],
                ):
                    self.assertIsNone(values.decode((kind, "ann"), forged))
                self.assertIsNone(values.decode((kind, "eve"), entry))
                self.assertIsNone(values.decode((another, "ann"), entry))
            warned = [event["kind"] for event in events]
            self.assertEqual(warned, [kind.name, another.name])  # one warning for each

    def test_a_sealed_entry_put_back_is_still_this_hosts(self) -> None:
        """A seal cannot detect that an old entry was written back.

        Data that needs protection against this is in the database.
        """
        kind = evolve(next(kind for kind in kinds().values() if kind.sealed), shape=str)
        entry = STAMP_1 + OURS.close(name_of(kind, "ann"), STAMP_1, kind.encode("before"))
        self.assertEqual(Values(10, OURS, lambda: 0.0).decode((kind, "ann"), entry), "before")

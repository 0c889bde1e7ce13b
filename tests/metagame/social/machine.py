"""The base of the social state machines, whose ledger completes each call before it returns."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

from hypothesis.stateful import RuleBasedStateMachine

from svcserver.kernel.refusals import Refusal
from tests.support.ledger import InstantLedger
from tests.support.people import add_accounts


class LedgerMachine(RuleBasedStateMachine):
    """The base machine: accounts, and a ledger that undoes the changes of rejected requests.

    ``at`` is a time in milliseconds.
    """

    players: ClassVar[list[str]]

    def __init__(self) -> None:
        super().__init__()
        self.ledger = InstantLedger()
        self.at = 1_000_000
        self.ledger.run(lambda tx: add_accounts(tx, self.players))

    def teardown(self) -> None:
        self.ledger.free()

    def run_rule(self, work: Callable[[Any], Any]) -> Any:
        with suppress(Refusal):
            return self.ledger.run(work)
        return None

"""Whom staff may sanction, what an order may say, and which sanction counts."""

from __future__ import annotations

from typing import Any

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, Refusal
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import Kind, Sanction
from svcserver.metagame.owner.moderation import rules
from svcserver.metagame.owner.moderation.rules import Order
from svcserver.metagame.owner.moderation.wire import read_asked

ANN = Account("UID-a", "Ann")
MONA, OLGA = Staff("Mona", Role.MODERATOR), Staff("Olga", Role.OWNER)


@define
class Kept:
    """Accounts and sanctions, in memory."""

    owner_count: int = 2
    held: dict[tuple[str, Kind], Sanction] = field(factory=dict)

    def named(self, name: str) -> Account | None:
        return None

    def find(self, who: str, kind: Kind | None = None) -> Any:
        return None if kind is None else self.held.get((who, kind))

    def put(self, account_id: str, kind: Kind, sanction: Sanction) -> None:
        self.held[account_id, kind] = sanction

    def drop(self, account_id: str, kind: Kind) -> None:
        del self.held[account_id, kind]

    def owners(self) -> int:
        return self.owner_count

    def set_role(self, account_id: str, role: Role) -> None:
        """Nothing to keep: what is returned is looked at."""


class ModerationRuleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.kept: Any = Kept()

    def refused(self, kind: type[Refusal], work: Any, *given: Any) -> str:
        """The code of the refusal."""
        return str(self.assertRaises(kind, work, *given).code)

    def test_an_order_has_so_long_a_reason_and_note_and_a_length_of_time(self) -> None:
        self.assertEqual(
            rules.order(" " + "r" * 255, "n" * 1_024, "2h"),
            Order("r" * 255, "n" * 1_024, 7_200),
        )
        self.assertEqual(rules.order("r" * 256, "", "").seconds, None)
        for words in (("r" * 257, "", ""), ("", "n" * 1_025, ""), ("", "", "soon")):
            self.assertEqual(self.refused(Malformed, rules.order, *words), "bad_request")

    def test_whoever_is_unknown_is_named_at_no_great_length(self) -> None:
        why = self.assertRaises(Missing, rules.person, self.kept, "x" * 200)
        self.assertEqual((why.code, str(why)), ("not_found", "no account is called " + "x" * 64))

    def test_who_may_sanction_whom(self) -> None:
        rules.check_may_handle(MONA, ANN)
        mick = evolve(ANN, staff_role="moderator")
        rules.check_may_handle(OLGA, mick)
        for staff, account in ((Staff("Hal", Role.HELPER), ANN), (MONA, mick)):
            code = self.refused(Forbidden, rules.check_may_handle, staff, account)
            self.assertEqual(code, "forbidden")
        owner = evolve(ANN, is_admin=True)
        self.assertEqual(self.refused(Conflict, rules.check_may_handle, OLGA, owner), "is_owner")

    def test_a_sanction_that_has_ended_is_none(self) -> None:
        rules.impose(self.kept, MONA, ANN, Kind.BAN, Order(seconds=60), 1_000.0)
        again = rules.impose(self.kept, MONA, ANN, Kind.BAN, Order(seconds=60), 1_059.0)
        self.assertEqual(again.before and again.before.made_at, 1_000)
        late = rules.impose(self.kept, MONA, ANN, Kind.BAN, Order(seconds=60), 1_119.0)
        self.assertIsNone(late.before)
        for kind, at, code in (
            (Kind.BAN, 1_179.0, "not_banned"),
            (Kind.MUTE, 1_120.0, "not_muted"),
        ):
            refused = self.refused(Conflict, rules.lift, self.kept, MONA, ANN, kind, at)
            self.assertEqual(refused, code)
        self.assertEqual(rules.lift(self.kept, MONA, ANN, Kind.BAN, 1_178.0).before, late.after)

    def test_only_an_owner_gives_roles_and_one_owner_stays(self) -> None:
        said = self.refused(Forbidden, rules.set_role, self.kept, MONA, ANN, Role.HELPER)
        self.assertEqual(said, "forbidden")
        owner = evolve(ANN, is_admin=True)
        self.assertIs(rules.set_role(self.kept, OLGA, owner, Role.PLAYER).is_admin, False)
        self.kept.owner_count = 1
        said = self.refused(Conflict, rules.set_role, self.kept, OLGA, owner, Role.HELPER)
        self.assertEqual(said, "last_owner")
        self.assertIs(rules.set_role(self.kept, OLGA, owner, Role.OWNER).is_admin, True)

    def test_no_more_of_a_query_is_looked_for_than_a_name_or_an_id_can_have(self) -> None:
        asked = read_asked(0.0, "a" * 500, "t" * 500, None, None)
        self.assertEqual((len(asked.actor), len(asked.target)), (96, 128))

"""The moderation rules: permissions, limits of a command, and sanctions in force."""

from functools import partial
from typing import Any

from attrs import define, evolve, field
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Forbidden, Malformed, Missing, Refusal
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.accounts.sanctions import Sanction, SanctionKind
from svcserver.metagame.owner.moderation import rules
from svcserver.metagame.owner.moderation.rules import SanctionOrder
from svcserver.metagame.owner.moderation.wire import PersonRequest, read_query

ANN = Account("UID-a", "Ann")
MONA, OLGA = Staff("Mona", Role.MODERATOR), Staff("Olga", Role.OWNER)


@define
class MemorySanctions:
    """Accounts and sanctions in memory."""

    owner_count: int = 2
    held: dict[tuple[str, SanctionKind], Sanction] = field(factory=dict)

    def named(self, name: str) -> Account | None:
        return None

    def find(self, who: str, kind: SanctionKind | None = None) -> Any:
        return None if kind is None else self.held.get((who, kind))

    def put(self, account_id: str, kind: SanctionKind, sanction: Sanction) -> None:
        self.held[account_id, kind] = sanction

    def drop(self, account_id: str, kind: SanctionKind) -> None:
        del self.held[account_id, kind]

    def owners(self) -> int:
        return self.owner_count

    def set_role(self, account_id: str, role: Role) -> None:
        """Store nothing: the tests check the returned account."""


class ModerationRuleTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.store: Any = MemorySanctions()

    def refused(self, kind: type[Refusal], work: Any, *arguments: Any) -> str:
        """Return the error code of the rejected command."""
        return str(self.assertRaises(kind, work, *arguments).code)

    def test_an_order_bounds_reason_note_and_duration(self) -> None:
        self.assertEqual(
            rules.sanction_order(" " + "r" * 255, "n" * 1_024, "2h"),
            SanctionOrder("r" * 255, "n" * 1_024, 7_200),
        )
        self.assertEqual(rules.sanction_order("r" * 256, "", "").seconds, None)
        for words in (("r" * 257, "", ""), ("", "n" * 1_025, ""), ("", "", "soon")):
            self.assertEqual(self.refused(Malformed, rules.sanction_order, *words), "bad_request")

    def test_an_unknown_name_is_cut_in_the_refusal(self) -> None:
        why = self.assertRaises(Missing, rules.person, self.store, "x" * 200)
        self.assertEqual((why.code, str(why)), ("not_found", "no account is called " + "x" * 64))

    def test_staff_may_sanction_only_accounts_below_their_role(self) -> None:
        rules.check_may_handle(MONA, ANN)
        mick = evolve(ANN, staff_role="moderator")
        rules.check_may_handle(OLGA, mick)
        for staff, account in ((Staff("Hal", Role.HELPER), ANN), (MONA, mick)):
            code = self.refused(Forbidden, rules.check_may_handle, staff, account)
            self.assertEqual(code, "forbidden")
        owner = evolve(ANN, is_admin=True)
        self.assertEqual(self.refused(Conflict, rules.check_may_handle, OLGA, owner), "is_owner")

    def test_an_ended_sanction_does_not_count(self) -> None:
        rules.impose(self.store, MONA, ANN, SanctionKind.BAN, SanctionOrder(seconds=60), 1_000.0)
        again = rules.impose(
            self.store, MONA, ANN, SanctionKind.BAN, SanctionOrder(seconds=60), 1_059.0
        )
        self.assertEqual(again.before and again.before.made_at, 1_000)
        late = rules.impose(
            self.store, MONA, ANN, SanctionKind.BAN, SanctionOrder(seconds=60), 1_119.0
        )
        self.assertIsNone(late.before)
        for kind, at, code in (
            (SanctionKind.BAN, 1_179.0, "not_banned"),
            (SanctionKind.MUTE, 1_120.0, "not_muted"),
        ):
            refused = self.refused(Conflict, rules.lift, self.store, MONA, ANN, kind, at)
            self.assertEqual(refused, code)
        self.assertEqual(
            rules.lift(self.store, MONA, ANN, SanctionKind.BAN, 1_178.0).before, late.after
        )

    def test_only_an_owner_gives_roles_and_one_owner_stays(self) -> None:
        give = partial(rules.set_role, self.store, proven=True)
        self.assertEqual(self.refused(Forbidden, give, MONA, ANN, Role.HELPER), "forbidden")
        owner = evolve(ANN, is_admin=True)
        self.assertIs(give(OLGA, owner, Role.PLAYER).is_admin, False)
        self.store.owner_count = 1
        self.assertEqual(self.refused(Conflict, give, OLGA, owner, Role.HELPER), "last_owner")
        self.assertIs(give(OLGA, owner, Role.OWNER).is_admin, True)

    def test_query_texts_are_cut_to_the_longest_name_and_id(self) -> None:
        query = read_query(0.0, "a" * 500, "t" * 500, None, None)
        self.assertEqual((len(query.actor), len(query.target)), (96, 128))


class WhoTests(SynchronousTestCase):
    def test_an_account_is_named_by_one_to_64_characters(self) -> None:
        read = reader(PersonRequest)
        for name in ("a", "a" * 64):
            self.assertEqual(read({"Account": name, "Reason": "x"}).account, name)
        for name in ("", "a" * 65):
            self.assertRaises(Malformed, read, {"Account": name, "Reason": "x"})

"""The checks before accounts are merged or deleted."""

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Forbidden
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.owner.people import rules, wire

ANN, BOB = Account("UID-a", "Ann", notes=1), Account("UID-b", "Bob")


class PeopleTests(SynchronousTestCase):
    def test_lists_have_three_sort_orders(self) -> None:
        self.assertEqual([*rules.SortOrder], ["name", "seen", "role"])

    def test_a_page_has_a_next_offset_only_if_more_follow(self) -> None:
        full = [rules.ListedAccount(ANN, None)] * wire.PAGE
        for accounts, following in (
            (full, None),
            ([*full, rules.ListedAccount(BOB, None)], wire.PAGE),
        ):
            self.assertEqual(wire.show_list(accounts, {}, 0)["nextOffset"], following)

    def test_a_reason_may_be_left_out(self) -> None:
        requests = wire.AccountRequest("Ann"), wire.MergeRequest("Ann", "Bob")
        self.assertEqual([request.reason for request in requests], ["", ""])

    def test_only_existing_notes_move_to_a_different_account(self) -> None:
        rules.check_merge(ANN, BOB)
        for source, target, code in ((BOB, ANN, "no_notes"), (ANN, ANN, "same_account")):
            refused = self.assertRaises(Conflict, rules.check_merge, source, target)
            self.assertEqual(refused.code, code)

    def test_owners_and_guild_leaders_are_not_deleted(self) -> None:
        rules.check_deletable(ANN, "")
        owner = evolve(ANN, is_admin=True)
        for account, leads, code in ((owner, "", "is_owner"), (ANN, "Hunters", "leads_guild")):
            refused = self.assertRaises(Conflict, rules.check_deletable, account, leads)
            self.assertEqual(refused.code, code)

    def test_only_an_owner_takes_over_or_removes_accounts(self) -> None:
        for role in Role:
            staff = Staff("Olga", role)
            if role is Role.OWNER:
                rules.check_owner(staff)
            else:
                refused = self.assertRaises(Forbidden, rules.check_owner, staff)
                self.assertEqual(refused.code, "forbidden")

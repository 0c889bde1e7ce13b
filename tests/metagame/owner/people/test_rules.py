"""Who may be merged and deleted, and who may do that."""

from __future__ import annotations

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Forbidden
from svcserver.kernel.roles import Role
from svcserver.metagame.access.acting import Staff
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.owner.people import rules, wire

ANN, BOB = Account("UID-a", "Ann", notes=1), Account("UID-b", "Bob")


class PeopleTests(SynchronousTestCase):
    def test_lists_are_sorted_by_these_words(self) -> None:
        self.assertEqual([*rules.Order], ["name", "seen", "role"])

    def test_a_full_page_is_followed_by_another_only_where_there_is_more(self) -> None:
        full = [rules.Listed(ANN, None)] * wire.PAGE
        for found, following in ((full, None), ([*full, rules.Listed(BOB, None)], wire.PAGE)):
            self.assertEqual(wire.show_list(found, {}, 0)["nextOffset"], following)

    def test_a_reason_may_be_left_out(self) -> None:
        wishes = wire.AccountWish("Ann"), wire.MergeWish("Ann", "Bob")
        self.assertEqual([one.reason for one in wishes], ["", ""])

    def test_notes_are_moved_where_there_are_some_to_another_account(self) -> None:
        rules.check_merge(ANN, BOB)
        for source, target, code in ((BOB, ANN, "no_notes"), (ANN, ANN, "same_account")):
            refused = self.assertRaises(Conflict, rules.check_merge, source, target)
            self.assertEqual(refused.code, code)

    def test_an_owner_and_who_leads_a_guild_are_not_deleted(self) -> None:
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

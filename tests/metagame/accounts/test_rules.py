"""Invite codes and keys, and the parts of them that logs may show.

Spec: 2 §4 Register rules, 1 §2.
"""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.refusals import Conflict, Malformed, Missing, Unauthenticated
from svcserver.kernel.roles import role_of
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.rules import Account, InviteCode, NewAccount
from tests.support.proves import proves


class Accounts:
    """A directory without accounts; ``looked_up`` records every code that is looked up."""

    def __init__(
        self, *invites: InviteCode, spendable: bool = True, account: Account | None = None
    ):
        self.spendable, self.account = spendable, account
        self.invites = {invite.code: invite for invite in invites}
        self.looked_up: list[str] = []
        self.spent: list[str] = []
        self.used: list[tuple[str, str, float]] = []
        self.added: list[tuple[Account, str, float]] = []
        self.renamed: list[tuple[str, str]] = []
        self.taken: dict[str, str] = {}  # name to account

    def name_is_taken(self, username: str, but_for: str | None = None) -> bool:
        return self.taken.get(username, but_for) != but_for

    def find(self, account_id: str) -> Account | None:
        return self.account

    def add(self, account: Account, key: str, at: float) -> None:
        self.added.append((account, key, at))

    def rename(self, account_id: str, username: str) -> None:
        self.renamed.append((account_id, username))

    def invite(self, code: str) -> InviteCode | None:
        self.looked_up.append(code)
        return self.invites.get(code)

    def spend(self, code: str) -> bool:
        self.spent.append(code)
        return self.spendable

    def note_use(self, code: str, account_id: str, at: float) -> None:
        self.used.append((code, account_id, at))

    def set_not_before(self, account_id: str, not_before: int) -> None:
        self.account = Account(account_id, "Ann", tokens_not_before=not_before)


class CodeTests(SynchronousTestCase):
    def spends(self, accounts: Accounts, code: str | None) -> list[str]:
        rules.register(accounts, "INVITECODE", "Ann", code, 0.0)
        return accounts.spent

    def test_generated_codes_match_in_any_case_and_own_codes_as_typed(self) -> None:
        made, own = InviteCode("ABCD-EFGH-JKMN", 1, False), InviteCode("abcd-efgh-jkmp", 0, True)
        self.assertEqual(self.spends(Accounts(made), "abcd-efgh-jkmn"), [made.code])
        self.assertEqual(self.spends(Accounts(own), "abcd-efgh-jkmp"), [own.code])
        self.assertEqual(self.spends(Accounts(InviteCode("x", 1, False)), " x "), ["x"])

    def test_an_empty_or_unstorable_invite_code_is_not_looked_up(self) -> None:
        for code in (None, "", "  ", "a\0b", "x" * 129):
            accounts = Accounts(InviteCode("X", 1, False))
            self.assertRaises(Unauthenticated, self.spends, accounts, code)
            self.assertEqual((accounts.looked_up, accounts.spent), ([], []))
        for used_up in (Accounts(), Accounts(InviteCode("x", 0, False))):
            refused = self.assertRaises(Unauthenticated, self.spends, used_up, "x")
            self.assertEqual((refused.code, used_up.spent), ("invite_invalid", []))
        self.assertEqual(
            self.spends(Accounts(InviteCode("x" * 128, 1, False)), "x" * 128), ["x" * 128]
        )

    def test_a_code_whose_last_use_was_just_taken_registers_nobody(self) -> None:
        accounts = Accounts(InviteCode("x", 1, False), spendable=False)
        refused = self.assertRaises(Unauthenticated, self.spends, accounts, "x")
        self.assertEqual(refused.code, "invite_invalid")

    @proves("thing: Account key: UUK_ and 48 hex", "thing: Invite code")
    def test_made_codes_and_keys_have_their_form(self) -> None:
        for _ in range(20):
            self.assertRegex(rules.new_invite_code(), rules.GENERATED_CODE)
            self.assertRegex(rules.new_account_key(), r"\AUUK_[0-9a-f]{48}\Z")
        self.assertGreater(len({rules.new_invite_code() for _ in range(20)}), 1)

    def test_a_made_code_is_three_groups_of_the_letters_drawn(self) -> None:
        self.assertEqual(rules.CODE_ALPHABET, "0123456789ABCDEFGHJKMNPQRSTVWXYZ")
        drawn = iter("0123456789AB")
        self.patch(rules, "choice", lambda letters: next(drawn))
        self.assertEqual(rules.new_invite_code(), "0123-4567-89AB")

    def test_an_owners_own_code_and_its_uses_have_bounds(self) -> None:
        most = 2**31 - 1
        for code, uses in (("x", 1), ("x" * 128, most)):
            made = rules.own_invite(f" {code} ", uses, infinite=False)
            self.assertEqual(made, InviteCode(code, uses, False))
        for code, uses in ((" ", 1), ("x" * 129, 1), ("x", 0), ("x", -1), ("x", most + 1)):
            self.assertRaises(Malformed, rules.own_invite, code, uses, infinite=False)
        for uses, uses_kept in ((0, 0), (most, most), (most + 1, 0)):
            self.assertEqual(
                rules.own_invite("x", uses, infinite=True), InviteCode("x", uses_kept, True)
            )

    def test_a_name_that_is_no_text_is_a_bad_request(self) -> None:
        for sent in (7, None, ["Ann_1"]):
            refused = self.assertRaises(Malformed, rules.username, sent)
            self.assertEqual(refused.code, "bad_request")

    def test_a_log_shows_the_first_group_of_a_long_code_alone(self) -> None:
        self.assertEqual(rules.first_group("ABCD-EFGH-JKMN"), "ABCD-...")
        self.assertEqual(rules.first_group("123456789"), "1234-...")
        self.assertEqual(rules.first_group("12345678"), "...")

    def test_no_repr_shows_a_key_or_a_code(self) -> None:
        account = Account("UID-a", "Ann")
        self.assertNotIn("UUK", repr(NewAccount(account, "UUK_x")))
        self.assertNotIn("ABCD", repr(InviteCode("ABCD", 1, False)))
        self.assertEqual((account.is_admin, account.notes), (False, 0))
        self.assertEqual((account.tokens_not_before, account.banned_until), (0, 0))


class NameTests(SynchronousTestCase):
    def test_a_name_has_3_to_16_letters_digits_or_underscores(self) -> None:
        for sent in ("Ann", "_9a", "x" * 16):
            self.assertEqual(rules.username(f" {sent} "), sent)
        for sent in ("", "An", "x" * 17, "An n", "Änn", "Ann\n1"):
            refused = self.assertRaises(Malformed, rules.username, sent)
            self.assertEqual(refused.code, "username_invalid")

    def test_an_account_is_stored_as_it_is_returned(self) -> None:
        accounts = Accounts()
        made = rules.register(accounts, "OPEN", "Ann", "no code", 7.5, is_admin=True)
        self.assertEqual(accounts.added, [(made.account, made.key, 7.5)])
        self.assertEqual((made.account.username, made.account.is_admin), ("Ann", True))
        self.assertEqual(
            (accounts.looked_up, accounts.spent), ([], []), "open to all without a code"
        )
        self.assertFalse(rules.register(accounts, "OPEN", "Bob", None, 0.0).account.is_admin)

    def test_a_taken_name_costs_no_use_of_an_invite(self) -> None:
        accounts = Accounts(InviteCode("x", 1, False))
        accounts.taken["Ann"] = "UID-other"
        refused = self.assertRaises(
            Conflict, rules.register, accounts, "INVITECODE", "Ann", "x", 0.0
        )
        self.assertEqual(refused.code, "username_taken")
        self.assertEqual((accounts.spent, accounts.added), ([], []))

    def test_a_rename_returns_both_accounts_and_refuses_taken_names(self) -> None:
        before = Account("UID-a", "Ann", notes=7)
        accounts = Accounts(account=before)
        accounts.taken |= {"ann": "UID-a", "Bob": "UID-b"}
        self.assertEqual(
            rules.rename(accounts, "UID-a", "ann"), (before, Account("UID-a", "ann", notes=7))
        )
        self.assertEqual(accounts.renamed, [("UID-a", "ann")])
        refused = self.assertRaises(Conflict, rules.rename, accounts, "UID-a", "Bob")
        self.assertEqual(refused.code, "username_taken")
        for nobody, known in ((None, accounts), ("UID-x", Accounts())):
            gone = self.assertRaises(Missing, rules.rename, known, nobody, "New")
            self.assertEqual(gone.code, "not_found")
        self.assertEqual(len(accounts.renamed), 1)

    def test_registration_is_open_closed_or_not_decided(self) -> None:
        self.assertEqual(
            [rules.open_for(mode) for mode in ("OPEN", "INVITECODE")], ["OPEN", "INVITECODE"]
        )
        refused = self.assertRaises(Malformed, rules.open_for, "NONE")
        self.assertEqual(refused.code, "registration_closed")
        for unset in (None, "", "open"):
            fault = self.assertRaises(rules.ServerFault, rules.open_for, unset)
            self.assertEqual(fault.status, 500)

    def test_an_accounts_role_is_its_own_or_an_admins(self) -> None:
        for role, admin, word in ((None, False, "player"), ("helper", False, "helper")):
            self.assertEqual(Account("a", "Ann", admin, staff_role=role).role.word, word)
        self.assertEqual(Account("a", "Ann", True).role, role_of(None, is_admin=True))


class SessionEndTests(SynchronousTestCase):
    def test_each_end_voids_the_tokens_of_that_second_and_before(self) -> None:
        accounts = Accounts(account=Account("UID-a", "Ann"))
        self.assertEqual(
            rules.end_sessions(accounts, "UID-a", 7.9), rules.EndedSessions("UID-a", 8)
        )
        self.assertEqual(
            rules.end_sessions(accounts, "UID-a", 7.9), rules.EndedSessions("UID-a", 9)
        )
        self.assertEqual(
            rules.end_sessions(accounts, "UID-a", 3.0), rules.EndedSessions("UID-a", 10)
        )

    def test_ending_sessions_of_an_unknown_account_is_refused(self) -> None:
        refused = self.assertRaises(Missing, rules.end_sessions, Accounts(), "UID-a", 7.0)
        self.assertEqual(refused.code, "not_found")

"""Edge cases of the wire shapes of accounts and invites. Spec: 1 §4 Login, 2 §4 Management API."""

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Conflict, Malformed
from svcserver.metagame.accounts.invites import CodeRequest, InviteRequest, show_codes
from svcserver.metagame.accounts.login import LoginRequest
from svcserver.metagame.accounts.lookups.feature import MappingRequest, ids_of
from svcserver.metagame.accounts.management import wire
from svcserver.metagame.accounts.rules import Account, InviteCode


class RequestTests(SynchronousTestCase):
    def test_an_invite_is_for_one_use_unless_it_says_more(self) -> None:
        read = reader(InviteRequest)
        self.assertEqual(read({}), InviteRequest(1, ""))
        self.assertEqual(read({"uses": 1_000, "name": "for Ann"}), InviteRequest(1_000, "for Ann"))
        for bad in (0, 1_001, "1", None, True):
            self.assertRaises(Malformed, read, {"uses": bad})

    def test_an_owners_code_has_no_uses_unless_it_says_so(self) -> None:
        read = reader(CodeRequest)
        self.assertEqual(read({"NewInviteCode": "x"}), CodeRequest("x", 0, False))
        sent = {"NewInviteCode": "x", "Uses": "many", "InfiniteUses": True}
        self.assertEqual(read(sent), CodeRequest("x", 0, True))

    def test_a_login_key_that_is_not_text_counts_as_empty(self) -> None:
        read = reader(LoginRequest)
        for sent in ({}, {"exchange_code": 7}, {"exchange_code": None}):
            self.assertEqual(read(sent), LoginRequest(""))

    def test_ids_of_1_to_128_characters_are_looked_up(self) -> None:
        sent = {"accountIds": ["", "a", 7, "x" * 128, "y" * 129]}
        self.assertEqual(list(ids_of(reader(MappingRequest)(sent))), ["a", "x" * 128])


class PageTests(SynchronousTestCase):
    def test_a_page_names_the_next_page_only_if_it_exists(self) -> None:
        page = [(Account(f"UID-{number}", f"P{number}"), None) for number in range(101)]
        whole, more = wire.show_page(page[:100], 200), wire.show_page(page, 200)
        self.assertEqual((len(whole["accounts"]), whole["nextOffset"]), (100, None))
        self.assertEqual((len(more["accounts"]), more["nextOffset"]), (100, 300))
        self.assertEqual(more["accounts"][-1]["id"], "UID-99")

    def test_a_name_is_available_or_says_why_not(self) -> None:
        self.assertEqual(wire.show_free(None), {"available": True})
        why = Conflict("another account has this name", code="username_taken")
        self.assertEqual(
            wire.show_free(why),
            {
                "available": False,
                "error": "username_taken",
                "message": "another account has this name",
            },
        )

    def test_codes_are_shown_with_their_remaining_uses(self) -> None:
        shown = {"inviteCode": "x", "usesRemaining": 3, "infiniteUses": False}
        self.assertEqual(show_codes([InviteCode("x", 3, False)]), {"InviteCodes": [shown]})

    def test_a_token_is_asked_for_by_the_accounts_id(self) -> None:
        self.assertEqual(reader(wire.TokenRequest)({"UserId": "UID-a"}), wire.TokenRequest("UID-a"))

    def test_lists_name_each_account_and_its_id(self) -> None:
        ann = Account("UID-a", "Ann")
        self.assertEqual(
            wire.show_users([ann]), {"Users": [{"Username": "Ann", "UserId": "UID-a"}]}
        )
        self.assertEqual(
            wire.show_rename(ann, Account("UID-a", "Anna")),
            {"UserId": "UID-a", "OldUsername": "Ann", "Username": "Anna"},
        )
        self.assertEqual(wire.show_mode(None), {})
        self.assertEqual(wire.show_mode("OPEN"), {"RegistrationMode": "OPEN"})

"""The names that rooms can have, and the valid nicknames, domains and resources."""

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.chat.names import (
    is_domain,
    is_resource,
    nickname_fault,
    printable,
    room_of,
    split_address,
)
from tests.support.proves import proves

ME = "UID-00000000-0000-4000-8000-000000000001"
ANOTHER_ACCOUNT = "UID-00000000-0000-4000-8000-000000000002"
RESOURCE = "V2:Word:WIN::0123456789abcdef0123456789abcdef"


def fault(nickname: str, *names: str) -> str | None:
    return nickname_fault(nickname, ME, RESOURCE, frozenset(names or ("Alpha",)))


class NicknameTests(SynchronousTestCase):
    def test_name_account_and_resource_make_a_nickname(self) -> None:
        self.assertIsNone(fault(f"Alpha:{ME}:{RESOURCE}"))

    def test_escapes_in_either_case_are_the_same_name(self) -> None:
        self.assertIsNone(fault(f"%41lpha:{ME}:{RESOURCE}"))
        self.assertIsNone(fault(f"%c3%a9:{ME}:{RESOURCE}", "é"))
        self.assertIsNone(fault(f"%C3%A9:{ME}:{RESOURCE}", "é"))

    def test_the_clients_placeholder_name_is_allowed(self) -> None:
        self.assertIsNone(fault(f"InvalidMCPUser:{ME}:{RESOURCE}"))

    @proves("chat: Join refusal: nickname")
    def test_a_nickname_of_another_account_is_refused_as_nick_account(self) -> None:
        for nick in (
            "Alpha",
            f"Alpha:{ANOTHER_ACCOUNT}:{RESOURCE}",
            f"{ANOTHER_ACCOUNT}:{ME}:{RESOURCE}",
        ):
            self.assertEqual(fault(nick), "nick-account")

    @proves("chat: Join refusal: nickname")
    def test_a_nickname_of_another_resource_is_refused_as_nick_resource(self) -> None:
        for end in ("", ":", f":{RESOURCE}x", f":{RESOURCE[:-1]}"):
            self.assertEqual(fault(f"Alpha:{ME}{end}"), "nick-resource")

    @proves("chat: Join refusal: nickname")
    def test_a_forbidden_character_in_a_nickname_is_nick_format(self) -> None:
        for name in ("x" * 1023, "Al pha", "é", "Al%4", "%ff", "a/b", "<a>", "Al@x", "%ZZ"):
            self.assertEqual(fault(f"{name}:{ME}:{RESOURCE}"), "nick-format")

    def test_a_nickname_has_at_most_1023_bytes(self) -> None:
        rest = f":{ME}:{RESOURCE}"
        name = "x" * (1023 - len(rest))
        self.assertIsNone(fault(name + rest, name))
        self.assertEqual(fault(f"x{name}{rest}", f"x{name}"), "nick-format")

    def test_an_empty_nickname_is_refused_as_nick_format(self) -> None:
        self.assertEqual(fault(""), "nick-format")

    @proves("chat: Join refusal: nickname")
    def test_a_nickname_with_another_name_is_refused_as_nick_name(self) -> None:
        for name in ("alpha", "Beta", "", "Alpha%20"):
            self.assertEqual(fault(f"{name}:{ME}:{RESOURCE}"), "nick-name")

    @settings(max_examples=100, deadline=None)
    @given(st.text(max_size=80))
    def test_any_nickname_is_accepted_or_has_a_known_fault(self, text: str) -> None:
        self.assertIn(
            fault(f"{text}:{ME}:{RESOURCE}"),
            (None, "nick-account", "nick-resource", "nick-format", "nick-name"),
        )


class RoomTests(SynchronousTestCase):
    @proves("chat: Rooms")
    def test_each_kind_of_room_is_recognised_on_both_room_hosts(self) -> None:
        for local, kind, room_id in (
            ("City-1", "City", "1"),
            ("Hunt-a-b", "Hunt", "a-b"),
            ("Party-" + "x" * 64, "Party", "x" * 64),
            ("Guild-9", "Guild", "9"),
            ("General", "General", ""),
            ("General7", "General", ""),
        ):
            for host in ("muc.h:1", "conference.h:1", "MUC.H:1"):
                room = room_of(local, host, "h:1")
                assert room is not None
                self.assertEqual((room.kind, room.id), (kind, room_id))
                self.assertEqual(room.address, f"{local}@{host}")

    def test_a_name_that_the_client_never_builds_is_no_room(self) -> None:
        for local in ("", "city-1", "City-", "City", "City-a_b", "Party-" + "x" * 65, "Gen", "X-1"):
            self.assertIsNone(room_of(local, "muc.h", "h"), local)
        for host in ("h", "muc.other", "chat.h", "muc.h:1", ""):
            self.assertIsNone(room_of("City-1", host, "h"), host)


class AddressTests(SynchronousTestCase):
    def test_addresses_split_at_the_first_slash_and_last_at(self) -> None:
        self.assertEqual(split_address("a@b:1/c/d@e"), ("a", "b:1", "c/d@e"))
        self.assertEqual(split_address("b"), ("", "b", ""))

    def test_host_names_and_addresses_with_a_port_are_domains(self) -> None:
        for good in ("svc.local", "127.0.0.1:61000", "a", "[::1]:1", "x-y.example.org"):
            self.assertTrue(is_domain(good), good)
        for bad in ("", "a b", "a/b", "a@b", "a:", "a:123456", '"', "<a>", "a" * 254, ".a", "a\n"):
            self.assertFalse(is_domain(bad), bad)

    def test_a_domain_has_at_most_253_characters(self) -> None:
        longest = ".".join(["a" * 62] * 4)[:251]
        self.assertTrue(is_domain(f"{longest}.b"))
        self.assertFalse(is_domain(f"{longest}b.b"))

    def test_logged_names_are_printable_and_short(self) -> None:
        self.assertEqual(printable("a\x1b[2J\nb"), "a?[2J?b")
        self.assertEqual(len(printable("x" * 500)), 80)
        self.assertEqual(printable("UUK_" + "0a" * 20 + "@muc.a"), "<key>@muc.a")

    def test_resources_are_printable_and_bounded(self) -> None:
        self.assertTrue(is_resource("x" * 256))
        for bad in ("", "x" * 257, "a\nb", "a\x7f"):
            self.assertFalse(is_resource(bad))

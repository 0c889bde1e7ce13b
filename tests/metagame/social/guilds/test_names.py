"""The checks of a guild's name and nameplate. Spec: 1 §4 Guilds."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.readers import reader
from svcserver.kernel.refusals import Refusal
from svcserver.metagame.social.guilds import names
from svcserver.metagame.social.guilds.names import Words, readings
from svcserver.metagame.social.guilds.wire import GuildName, Nameplate
from tests.metagame.social.guilds.base import Base, code
from tests.support.effort import tried
from tests.support.proves import proves

WORDS = Words.load_words()


def name_of(words: Words, sent: object) -> str:
    return names.name_of(words, reader(GuildName)(sent))


def nameplate_of(words: Words, sent: object) -> str:
    return names.nameplate_of(words, reader(Nameplate)(sent))


def error_code(check: object, *args: object) -> str:
    """Return the error code of a rejected name, or "" if the name is allowed."""
    try:
        check(*args)  # type: ignore[operator]
    except Refusal as why:
        return f"{why.status} {why.code.removesuffix('AdorableQuillshot')}"
    return ""


class ListTests(SynchronousTestCase):
    def test_reserved_words_are_refused_for_names_and_nameplates(self) -> None:
        words, without = Words.load_words(), Words.load_words(reserved=False)
        for name, plate in (("Support", "gm"), ("D3v3l0pers", "m0ds"), ("xAdminx", "st4ff")):
            self.assertTrue(words.is_reserved_name(name), name)
            self.assertTrue(words.is_reserved_nameplate(plate), plate)
            self.assertFalse(without.is_reserved_name(name), name)
            self.assertFalse(without.is_reserved_nameplate(plate), plate)
        self.assertFalse(words.is_reserved_name("Supporters"))
        self.assertFalse(words.is_reserved_nameplate("gmx"))


# a name and the code of its refusal; "" means that the name is accepted
NAMES = (
    ("Abcd", ""),
    ("A" * 6 + "bcdefghij", ""),
    ("Abcdefghijklmno", ""),
    ("Abc", "400 Obedient"),
    ("Abcdefghijklmnop", "400 Obedient"),
    ("", "400 Obedient"),
    ("Ab cd", "400 Obedient"),
    (" Abcd", "400 Obedient"),
    ("Abcd\n", "400 Obedient"),
    ("Äbcd", "400 Obedient"),
    ("Abcd٣", "400 Obedient"),
    ("Ab_cd", "400 Obedient"),
    (None, "400 Obedient"),
    (1234, "400 Obedient"),
    (["Abcd"], "400 Obedient"),
    ("Abc123456", ""),
    ("Abc1234567", "400 Numbered"),
    ("1234567", "400 Numbered"),
    ("aaaaaaBcd", ""),
    ("aAaAaAaBcd", "400 Lettered"),
    ("bcdzzzzzzz", "400 Lettered"),
    ("1111112", "400 Numbered"),
    ("1488", "400 Nasty"),
    ("x1488", ""),
    ("ShitHeads", "400 Nasty"),
    ("xSH1Tx", "400 Nasty"),
    ("Fuckers", "400 Nasty"),
    ("theKKKs", "400 Nasty"),
    ("Assassins", ""),
    ("Torpedo", ""),
    ("Therapist", ""),
    ("Administrators", "409 Seized"),
    ("4dm1n", "409 Seized"),
    ("theStaff", "409 Seized"),
    ("M0derator", "409 Seized"),
    ("Support", "409 Seized"),
    ("5upp0rt", "409 Seized"),
    ("Supporters", ""),
    ("Developer", "409 Seized"),
    ("Servers", "409 Seized"),
    ("Serverside", ""),
)


class NameTests(SynchronousTestCase):
    @proves(
        "deny word in the name: Nasty",
        "in a guild already: Occupied",
        "more than 6 digits: Numbered",
        "more than 6 of the same letter: Lettered",
        "name not 4 to 15 letters and digits: Obedient",
        "name taken: Seized",
        "reserved word in the name: Seized",
        "reserved words: anywhere, whole name, whole nameplate; GUILD_RESERVED_NAMES=0",
        "limit: Guild name / nameplate",
    )
    def test_each_guild_name_is_accepted_or_refused_with_its_reason(self) -> None:
        for name, expected in NAMES:
            self.assertEqual(error_code(name_of, WORDS, name), expected, name)

    @proves(
        "deny word in the nameplate: Dirty",
        "nameplate not empty or 2 to 6: Dutiful",
        "nameplate taken: Captured",
        "reserved word in the nameplate: Captured",
        "reserved words: anywhere, whole name, whole nameplate; GUILD_RESERVED_NAMES=0",
        "limit: Guild name / nameplate",
    )
    def test_each_nameplate_is_accepted_or_refused_with_its_reason(self) -> None:
        for nameplate, expected in (
            ("", ""),
            (None, ""),
            ("AB", ""),
            ("ABCDEF", ""),
            ("A", "400 Dutiful"),
            ("ABCDEFG", "400 Dutiful"),
            ("A B", "400 Dutiful"),
            ("AB\n", "400 Dutiful"),
            (7, "400 Dutiful"),
            (False, "400 Dutiful"),
            ("SS", "400 Dirty"),
            ("1488", "400 Dirty"),
            ("xKKK", "400 Dirty"),
            ("5H17", "400 Dirty"),
            ("SSX", ""),
            ("GM", "409 Captured"),
            ("DEV", "409 Captured"),
            ("D3V", "409 Captured"),
            ("DRX", ""),
            ("admin", "409 Captured"),
            ("xStaff", "409 Captured"),
        ):
            self.assertEqual(error_code(nameplate_of, WORDS, nameplate), expected, nameplate)

    @proves("deny list and digit swaps; GUILD_NAME_DENYLIST")
    def test_the_owner_adds_words_in_any_spelling(self) -> None:
        words = Words.load_words(("b4d", "L1ly", ""))
        for name in ("Bad1Guild", "xB4Dx", "Lily", "L1LY", "1i1yFans"):
            self.assertEqual(error_code(name_of, words, name), "400 Nasty", name)
        self.assertEqual(error_code(nameplate_of, words, "B4D"), "400 Dirty")
        self.assertEqual(error_code(name_of, words, "Good"), "")

    @proves("reserved words: anywhere, whole name, whole nameplate; GUILD_RESERVED_NAMES=0")
    def test_offensive_words_stay_refused_when_reserved_words_are_off(self) -> None:
        words = Words.load_words(reserved=False)
        for name in ("Admins", "Support"):
            self.assertEqual(error_code(name_of, words, name), "")
        self.assertEqual(error_code(nameplate_of, words, "GM"), "")
        self.assertEqual(error_code(name_of, words, "Fuckers"), "400 Nasty")
        self.assertEqual(error_code(nameplate_of, words, "SS"), "400 Dirty")

    @proves("deny list and digit swaps; GUILD_NAME_DENYLIST")
    def test_every_swapped_character_is_read_as_its_letters(self) -> None:
        self.assertEqual(readings("0134578$@X"), {"oieastbsax", "oleastbsax"})

    @tried(100)
    @given(st.one_of(st.text(max_size=20), st.integers(), st.none(), st.lists(st.integers())))
    def test_anything_is_allowed_or_refused_with_a_code(self, name: object) -> None:
        for check in (name_of, nameplate_of):
            refusal = error_code(check, WORDS, name)
            self.assertTrue(refusal == "" or refusal.split()[1:], refusal)
            if refusal == "" and name is not None:
                self.assertTrue(name == "" or (str(name).isascii() and str(name).isalnum()))


class ValidateTests(Base):
    @proves("POST /guild/validate")
    def test_a_good_pair_is_acknowledged_and_nothing_is_created(self) -> None:
        self.ack(self.validate(self.ann, "Slayers", "SLY", leader_account_id="UID-other"))
        self.assertIsNone(self.mine(self.ann))
        page = self.do("POST", "/validate", self.ann, {"name": "Slayers"})
        self.ack(page)

    @proves(
        "POST /guild/validate",
        "deny word in the name: Nasty",
        "deny word in the nameplate: Dirty",
        "in a guild already: Occupied",
        "more than 6 digits: Numbered",
        "more than 6 of the same letter: Lettered",
        "name not 4 to 15 letters and digits: Obedient",
        "name taken: Seized",
        "nameplate not empty or 2 to 6: Dutiful",
        "nameplate taken: Captured",
        "reserved word in the name: Seized",
        "reserved word in the nameplate: Captured",
    )
    def test_guild_names_are_checked_in_the_documented_order(self) -> None:
        self.create_guild(self.bob, "Taken", "TKN")
        for name, nameplate, status, word in (
            ("no", "!", 400, "Obedient"),
            ("a1234567", "!", 400, "Numbered"),
            ("aaaaaaaShit", "!", 400, "Lettered"),
            ("AdminShit", "!", 400, "Nasty"),
            ("Admins", "!", 409, "Seized"),
            ("tAKEN", "!", 409, "Seized"),
            ("Slayers", "!", 400, "Dutiful"),
            ("Slayers", "SS", 400, "Dirty"),
            ("Slayers", "GM", 409, "Captured"),
            ("Slayers", "tkn", 409, "Captured"),
        ):
            self.refused(self.validate(self.ann, name, nameplate), status, word)
        self.refused(self.validate(self.bob, "no", "!"), 409, "Occupied")
        for body in ({}, [], None):
            page = self.do("POST", "/validate", self.ann, body)
            self.refused(page, 400, "Obedient")

    @proves("the empty nameplate is never taken")
    def test_the_empty_nameplate_is_never_taken(self) -> None:
        self.create_guild(self.ann, "First")
        self.create_guild(self.bob, "Second")
        self.ack(self.validate(self.cat, "Third"))


class SwitchTests(Base):
    environ = {"GUILD_RESERVED_NAMES": "0", "GUILD_NAME_DENYLIST": " b4d ,, evil"}  # noqa: RUF012

    @proves(
        "deny list and digit swaps; GUILD_NAME_DENYLIST",
        "GUILD_RESERVED_NAMES, GUILD_NAME_DENYLIST",
    )
    def test_the_owners_denied_words_are_refused_in_guild_names(self) -> None:
        self.ack(self.validate(self.ann, "Admins", "GM"))
        for name in ("Bad1Guild", "3v1lOnes", "Fuckers"):
            page = self.validate(self.ann, name)
            self.assertEqual((page.status, page.json["code"]), (400, code("Nasty")))

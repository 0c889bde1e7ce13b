"""The rules for guild names and nameplates, in the order in which they are checked.

Each error has a code, for which the client shows its own message. Spec: 1 §4 Guilds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from attrs import frozen

from svcserver.kernel import datafiles
from svcserver.kernel.refusals import Conflict, Malformed

PACKAGE, FILE = "svcserver.metagame.social.guilds", "words.json"
NAME = re.compile(r"[A-Za-z0-9]{4,15}\Z")
NAMEPLATE = re.compile(r"([A-Za-z0-9]{2,6})?\Z")
LETTER_RUN = re.compile(r"([a-z])\1{6}")
MAX_DIGITS = 6

OBEDIENT = "ObedientAdorableQuillshot"
NUMBERED = "NumberedAdorableQuillshot"
LETTERED = "LetteredAdorableQuillshot"
NASTY = "NastyAdorableQuillshot"
SEIZED = "SeizedAdorableQuillshot"
DUTIFUL = "DutifulAdorableQuillshot"
DIRTY = "DirtyAdorableQuillshot"
CAPTURED = "CapturedAdorableQuillshot"

# digits and signs that replace letters; 1 may be i or l, so both are tried
_SWAPS = [str.maketrans("0134578$@", f"o{letter}eastbsa") for letter in "il"]


def readings(text: str) -> frozenset[str]:
    """Return the readings of ``text``: lower case, look-alikes such as ``0`` replaced by letters.

    ``1`` can look like ``i`` or ``l``, so there can be two readings.
    """
    return frozenset(text.lower().translate(swaps) for swaps in _SWAPS)


def _all_readings(words: Iterable[str]) -> frozenset[str]:
    return frozenset(reading for word in words for reading in readings(word) if reading)


@frozen
class Words:
    """The words that guilds may not use.

    In all sets except ``offensive_whole``, look-alikes such as ``0`` are replaced by letters.
    """

    deny: frozenset[str]
    offensive_whole: frozenset[str]
    reserved_anywhere: frozenset[str]
    reserved_names: frozenset[str]
    reserved_nameplates: frozenset[str]

    @classmethod
    def load_words(cls, extra: Iterable[str] = (), *, reserved: bool = True) -> Words:
        """Return the built-in offensive words and the owner's words.

        If ``reserved`` is true, the built-in reserved words are included.
        """
        return datafiles.load(PACKAGE, FILE, lambda words: cls._load_words(words, extra, reserved))

    @classmethod
    def _load_words(
        cls, words: dict[str, list[str]], extra: Iterable[str], reserved: bool
    ) -> Words:
        none: frozenset[str] = frozenset()
        return cls(
            _all_readings([*words["deny"], *extra]),
            frozenset(words["offensive_whole"]),
            _all_readings(words["reserved_anywhere"]) if reserved else none,
            _all_readings(words["reserved_names"]) if reserved else none,
            _all_readings(words["reserved_nameplates"]) if reserved else none,
        )

    def is_offensive(self, text: str) -> bool:
        """Return whether the text contains a word in ``deny`` or is one of ``offensive_whole``."""
        return text.lower() in self.offensive_whole or _holds(text, self.deny)

    def is_reserved_name(self, text: str) -> bool:
        """Return whether the text contains a reserved word or is a reserved name."""
        return _holds(text, self.reserved_anywhere) or bool(readings(text) & self.reserved_names)

    def is_reserved_nameplate(self, text: str) -> bool:
        """Return whether the text contains a reserved word or is a reserved nameplate."""
        return _holds(text, self.reserved_anywhere) or bool(
            readings(text) & self.reserved_nameplates
        )


def _holds(text: str, words: frozenset[str]) -> bool:
    return any(word in reading for reading in readings(text) for word in words)


def name_of(words: Words, name: str) -> str:
    """Return ``name`` if it is allowed; raises Malformed or Conflict.

    The function does not check whether another guild has the name.
    """
    if not NAME.match(name):
        raise Malformed("A guild name has 4 to 15 letters and digits.", code=OBEDIENT)
    if sum(char.isdigit() for char in name) > MAX_DIGITS:
        raise Malformed("A guild name has at most 6 digits.", code=NUMBERED)
    if LETTER_RUN.search(name.lower()):
        raise Malformed("Too many of the same letter in a row.", code=LETTERED)
    if words.is_offensive(name):
        raise Malformed("This guild name is not allowed.", code=NASTY)
    if words.is_reserved_name(name):
        raise Conflict("This guild name is reserved.", code=SEIZED)
    return name


def nameplate_of(words: Words, nameplate: str | None) -> str:
    """Return ``nameplate`` if it is allowed, or "" if it is None; raises Malformed or Conflict."""
    if nameplate is None:
        return ""
    if not NAMEPLATE.match(nameplate):
        raise Malformed("A nameplate is empty or has 2 to 6 letters and digits.", code=DUTIFUL)
    if words.is_offensive(nameplate):
        raise Malformed("This nameplate is not allowed.", code=DIRTY)
    if words.is_reserved_nameplate(nameplate):
        raise Conflict("This nameplate is reserved.", code=CAPTURED)
    return nameplate

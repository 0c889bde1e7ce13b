"""The packages ``http`` and ``web`` are independent of the game: services pass its terms in."""

from __future__ import annotations

import re
from pathlib import Path

import svcserver

ROOT = Path(svcserver.__file__).parent
WORDS = re.compile(
    r"game|player|metagame|gateway|hunt|guild|progression|inventory|loadout|entitlement|account"
    r"|invite|dashboard|admin|relay|allowlist|deploy(?!ed)|x-svc|chat|party|friend|launcher"
    r"|matchmaking|whisper",
    re.IGNORECASE,
)
COMMENT = re.compile(r"(?m)(^|\s)#.*$|Spec: (.|\n)*?(\n\n|\"\"\")")
OF_HTTP = re.compile(r"Bad Gateway|Gateway Timeout")


def words(source: str) -> list[str]:
    """Return game terms in a module, outside comments and references to the specification."""
    plain = OF_HTTP.sub("", COMMENT.sub("", source))
    return [line.strip() for line in plain.splitlines() if WORDS.search(line)]


def test_http_and_web_know_no_word_of_the_game() -> None:
    for package in ("http", "web"):
        for path in sorted((ROOT / package).rglob("*.py")):
            assert words(path.read_text()) == [], path.relative_to(ROOT)
    assert words('KEY = b"x-svc-user-api-key"\n') != []

"""A string with every character sequence that a terminal, log or page might interpret."""

import unicodedata

FORGED = "2026-01-01 00:00:00  owner  ban  Victim  because  "
NASTY = (
    "n\x1b]0;owned\x07\x1b[2J\x1b]52;c;cm0=\x07\x9b31m\x9d0;c1\x9c\x08\x7f\x85"
    f"\r\n{FORGED}\u2028{FORGED}\u2029{FORGED}\v\f\x1c"
    "\u202egnp.\u202c\u2066\u2069\u200e\u061c\u200b\u200c\u200d\u2060\ufeff\u00ad\ufe0f\u3164"
    "\U000e0041\U000e007f\ue000\t</script><img src=x onerror=alert(1)>&amp;\"'`${7*7}{{7*7}}%s"
    " @everyone <@&1> [a](javascript:alert(1)) =cmd|' /C calc'!A0 \\x1b[31m"
)
UNSAFE = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))


def unsafe_in(text: str) -> str:
    """Return a readable list of the characters in a text that must always be escaped."""
    result = {char for char in text if unicodedata.category(char) in UNSAFE}
    return ", ".join(sorted(ascii(char) for char in result))

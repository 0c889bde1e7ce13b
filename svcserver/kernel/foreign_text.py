r"""Text from players, staff, game servers, other hosts or files, made safe to show.

``shown`` makes text safe for a terminal, a log or an export that people read. It writes an
invisible character as an escape such as ``\x1b``, ``\u202e`` or ``\U000e0041``. A backslash that
looks like the start of an escape becomes ``\x5c``, so that nobody can forge an escape. Names,
reasons and titles must pass ``is_plain``.
"""

import re
import unicodedata

LINE = 8_192  # maximum characters of a line
CELL = 1_024  # maximum characters of a table cell
MOST_MARKS = 4  # combining marks on one letter; more of them cover the lines around it
JOINERS = "\u200c\u200d"  # Persian, Hindi and emoji need them
NOT_PLAIN = "line breaks, control characters or text-direction marks"
_REFUSED = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
# letters and marks that no terminal draws, although isprintable() lets them through
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)
_LIKE_AN_ESCAPE = re.compile(r"\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})")
_SECOND_SPACE = re.compile("(?<= ) ")


def is_plain(text: str) -> bool:
    """Return whether ``text`` has no control, format, bidi or line-separator character."""
    return text.isprintable() or all(
        char in JOINERS or unicodedata.category(char) not in _REFUSED for char in text
    )


def plain(text: str) -> str:
    """Replace every character that ``is_plain`` rejects with a space."""
    if is_plain(text):
        return text
    return "".join(char if is_plain(char) else " " for char in text)


def shown(text: str, longest: int = LINE) -> str:
    """Return ``text`` as one line of about ``longest`` characters; escape invisible characters."""
    start = text[: longest + 1]
    if "\\" in start:  # saves time: the substitution takes a quarter of a log line's time
        start = _LIKE_AN_ESCAPE.sub(r"\\x5c", start)
    return _bounded(start, longest, len(text))


def cell(text: str) -> str:
    """Return ``text`` as a table cell, with repeated spaces escaped.

    Two spaces separate the columns of a table, so a cell must not contain them.
    """
    return _SECOND_SPACE.sub(r"\\x20", shown(text, CELL))


def visible(text: str, longest: int = LINE) -> str:
    """Return ``text`` as the function ``shown`` does, but keep existing escapes as they are.

    So a second call with the result changes nothing.
    """
    return _bounded(text, longest, len(text))


def failed_start(line: str) -> SystemExit:
    """Return the SystemExit that ends the program with the message ``line``, made safe to show."""
    return SystemExit(visible(line))


def _bounded(text: str, longest: int, size: int) -> str:
    if size <= longest and text.isascii() and text.isprintable():
        return text
    parts, length, marks = list[str](), 0, 0
    for char in text:
        marks = marks + 1 if unicodedata.combining(char) else 0
        part = char if _is_visible(char) and marks <= MOST_MARKS else _escaped(char)
        length += len(part)
        if length > longest:
            return f"{''.join(parts)}... ({size:,} characters)"
        parts.append(part)
    return "".join(parts)


def _is_visible(char: str) -> bool:
    return char.isprintable() and _BLANK.match(char) is None


def _escaped(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

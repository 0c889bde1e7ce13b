"""Whether an element of a loadout was saved already; see ``kernel/repeats.py``."""

from __future__ import annotations

from collections.abc import Iterable

from svcserver.kernel.repeats import Repeat


def is_saved(
    document: bytes,
    newest: bytes | None,
    lately: Iterable[tuple[int, bytes]],
    at_ms: int,
    repeat: Repeat,
) -> bool:
    """Whether it is the newest, or was so at any time since it was asked for.

    What another saved then stays.

    ``lately``: when and as what it was saved, the newest first. When it was replaced counts, not
    when it was saved: a metagame binds its port before it can answer, and a repeat that waits there
    seems to have been asked for later than it was, after its own first try even.

    So one wish is lost: of two saves of an element under way when a metagame ends, neither done,
    the second back to what was there before. Repeated in that order, the first replaces the old
    text, which then counts as the second one's first try: the first one's stays.
    """
    if newest == document:
        return True
    replaced_ms: int | None = None  # unknown of the first one: another version may lack the element
    for saved_ms, text in lately:
        last_ms = saved_ms if replaced_ms is None else replaced_ms
        if text == document and repeat.is_before(last_ms, at_ms, late_ms=0):
            return True
        replaced_ms = saved_ms
    return False

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
    """Whether it is the newest, or was since it was asked for: what another saved then stays.

    ``lately``: when and as what it was saved.
    """
    if newest == document:
        return True
    return any(
        text == document and repeat.is_before(saved_ms, at_ms, late_ms=0)
        for saved_ms, text in lately
    )

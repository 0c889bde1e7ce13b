"""Decisions about settings: which are live (can be changed at run time), and their valid values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from attrs import Attribute, fields

from svcserver.kernel.refusals import Malformed, Missing
from svcserver.metagame.accounts.rules import MODES
from svcserver.metagame.settings import MetagameSettings

REGISTRATION_MODE = "REGISTRATION_MODE"
SWITCH = ("1", "0")  # on, off
_WORDS: Mapping[str, tuple[str, ...]] = {
    REGISTRATION_MODE: MODES,
    "LOG_LEVEL": ("fatal", "error", "warn", "info", "debug", "trace", "silent"),
}

LIVE: Mapping[str, Attribute[Any]] = {
    attribute.metadata["name"]: attribute
    for attribute in fields(MetagameSettings)
    if attribute.metadata["live"]
}
"""Maps each variable that may change at run time to its field in ``MetagameSettings``."""


def options(name: str) -> tuple[str, ...]:
    """Return the possible values of a live setting, or () if any number or text is possible."""
    return SWITCH if isinstance(LIVE[name].default, bool) else _WORDS.get(name, ())


def check_is_live(name: str) -> None:
    """Raise Missing if the setting cannot be changed at run time."""
    if name not in LIVE:
        why = "no setting with this name can be changed while the server runs"
        raise Missing(why, code="not_found")


def parsed(name: str, text: str) -> Any:
    """Parse ``text`` as the value of a live setting; raises Malformed or Missing."""
    check_is_live(name)
    words, metadata = options(name), LIVE[name].metadata
    try:
        if words and text not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        if not text.strip() and LIVE[name].default != ():
            raise ValueError("must have a value")
        return metadata["read"](text)
    except ValueError as error:
        raise Malformed(f"{name} {error}", code="bad_request") from None


def apply(settings: MetagameSettings, stored: Mapping[str, str]) -> None:
    """Set the live settings to the stored values; ignore invalid values."""
    for name in stored.keys() & LIVE.keys():
        with suppress(Malformed):
            setattr(settings, LIVE[name].name, parsed(name, stored[name]))


def shown(value: Any) -> str:
    """Return a live setting's value as it would be written in an env file."""
    if isinstance(value, bool):
        return SWITCH[not value]
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return ",".join(value)
    return "" if value is None else str(value)

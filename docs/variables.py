"""The page of all settings: from the classes that read them, and the owner's page's sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import NOTHING, fields

from svcserver.allowlist.settings import Settings as Allowlist
from svcserver.chat.settings import Settings as Chat
from svcserver.content.settings import Settings as Content
from svcserver.deploy.settings import Settings as Deploy
from svcserver.gateway.settings import AllowlistSettings as Doorkeeper
from svcserver.gateway.settings import Settings as Gateway
from svcserver.kernel.rates import Rate
from svcserver.kernel.settings import Bad
from svcserver.metagame.settings import Settings as Metagame
from svcserver.relay.settings import Settings as Relay
from svcserver.stack.backups import BackupSettings
from svcserver.stack.service import Settings as Stack

OWNERS_PAGE = Path(__file__).parent / "owners" / "configuration.md"
SERVICES: dict[str, tuple[type[Any], ...]] = {  # by how its sections on the owner's page begin
    "Metagame": (Metagame, Chat),
    "Deploy server": (Deploy,),
    "Gateway": (Gateway, Doorkeeper),
    "Allowlist helper": (Allowlist,),
    "Content server": (Content,),
    "Launcher relay": (Relay,),
    "Stack": (Stack, BackupSettings),
}
UNITS = {
    "MS": "ms",
    "S": "s",
    "SECONDS": "s",
    "DAYS": "days",
    "WEEKS": "weeks",
    "MONTHS": "months",
    "MB": "MB",
    "BYTES": "bytes",
}
NONSENSE = ("\x00?", "-1.5", "2")  # no reader that refuses anything takes all of them


def page() -> str:
    """A table for each class of settings; ends the build where a variable has no sentence."""
    lines = [
        "# Settings",
        "",
        "Written from the code: every variable that is read, by whom, and what it takes, in the",
        "words of the line that refuses another value. In the class that reads it a variable has",
        "its name in small letters, or the one that stands below it. What each is for stands in",
        "the same words in [Configuration](../owners/configuration.md), which explains them",
        "to owners.",
    ]
    said = sentences(OWNERS_PAGE.read_text(encoding="utf-8"))
    for service, shapes in SERVICES.items():
        lines += ["", f"## {service}"]
        known: set[str] = set()
        for shape in shapes:
            found = {one.metadata["name"]: one for one in fields(shape)}
            again = [f"`{name}`" for name in found if name in known]
            beside = f", which reads {', '.join(again)} too" if again else ""
            lines += ["", f"Read by `{shape.__module__}.{shape.__name__}`{beside}:", ""]
            lines += [
                "| name | default | takes | what for | a bad value |",
                "|---|---|---|---|---|",
            ]
            lines += [row(one, said[service]) for name, one in found.items() if name not in known]
            known |= found.keys()
    return "\n".join([*lines, ""])


def row(one: Any, said: dict[str, str]) -> str:
    """The line of a variable."""
    name = one.metadata["name"]
    if not said.get(name):
        raise SystemExit(f"{OWNERS_PAGE} does not say what {name} is for")
    unit = UNITS.get(name.rpartition("_")[2])
    cells = (
        f"`{name}`" if one.name == name.lower() else f"`{name}` <br>`{one.name}`",
        default(one),
        takes(one.metadata["read"]) + (f"; {unit}" if unit else ""),
        linked(said[name]),
        bad(one),
    )
    return f"| {' | '.join(cells)} |"


def default(one: Any) -> str:
    """What holds where the variable is not set, as one would write it there."""
    value, read = one.default, one.metadata["read"]
    if value is NOTHING:
        return "none: it is required"
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or value in ("", ()):
        return "unset"
    for text in written(value):
        try:
            if read(text) == value:
                return f"`{text}`"
        except ValueError:
            continue
    if not value:
        return "unset"
    raise SystemExit(f"how is {value!r}, the default of {one.metadata['name']}, written?")


def written(value: Any) -> Iterator[str]:
    """How a value may be written in a variable."""
    if type(value) in (tuple, frozenset):
        parts = [str(part) for part in (value if isinstance(value, tuple) else sorted(value))]
        yield from (",".join(parts), " ".join(parts))
        yield ",".join(f"http://{part}" for part in parts)
    elif isinstance(value, Rate):
        yield f"{value.burst:g},{value.per_minute:g}"
        yield f"{value.burst:g},{value.per_minute / 60:g}"
    elif isinstance(value, float):
        yield from (f"{value:g}", f"{value * 1000:.0f}")
    else:
        yield from (
            str(value),
            f"http://{value}",
            f"{value:%H:%M}" if hasattr(value, "hour") else "",
        )


def takes(read: Any) -> str:
    """What the reader says of a value that it refuses; for a switch, which word changes it."""
    for text in NONSENSE:
        try:
            value = read(text)
        except ValueError as why:
            return re.sub(r"^must (be|name) ", "", str(why)).replace("<", r"\<")
        if isinstance(value, bool):
            return switch(read)
    return "any text"


def switch(read: Any) -> str:
    """The one word that a switch listens to."""
    for word in ("0", "1", "off"):
        if read(word) != read("another word"):
            return f"`{word}` turns it {'on' if read(word) else 'off'}"
    raise SystemExit(f"{read} is a switch that no known word changes")


def bad(one: Any) -> str:
    """What a value that is refused does."""
    if re.match("any text|`.*` turns it", takes(one.metadata["read"])):
        return ""
    return "the start fails" if one.metadata["bad"] is Bad.FAIL else "a warning, the default"


def sentences(text: str) -> dict[str, dict[str, str]]:
    """What the owner's page says of each variable, by service."""
    found: dict[str, dict[str, str]] = {name: {} for name in SERVICES}
    for service, name, _, effect in described(text):
        found[service][name] = effect
    return found


def described(text: str) -> Iterator[tuple[str, str, str, str]]:
    """The owner's page row by row: service, variable, default, and what it is for."""
    service = ""
    for line in text.splitlines():
        if line.startswith("## "):
            [service] = [one for one in SERVICES if line.removeprefix("## ").startswith(one)]
        if service and line.startswith("| ") and not line.startswith("| Name"):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)]
            for name in cells[1].split(", "):
                yield service, name, cells[2], cells[4]


def linked(sentence: str) -> str:
    """The sentence, its links as seen from here."""
    return re.sub(r"\]\((?!http)([a-z-]+\.md)", r"](../owners/\1", sentence)

"""How ``svc-stack`` prints a line of a component: readable for people, or as JSON for machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.system import epoch
from svcserver.web.logs import line_head

HEAD = ("time", "level", "service", "namespace", "message")
_GOES_ON_BEFORE = re.compile(r"\w\w|\.\d")
_GOES_ON_AFTER = re.compile(r"[^\W\d]{2}|\d\.?\d")  # a unit may follow a number
_READABLE = re.compile(r"(\S+Z) (debug|info|warn|error|critical) (\S+): (.*)")


def fields_of(line: str) -> dict[str, Any] | None:
    """The members of a JSON line of a service; None for any other text."""
    if not line.startswith("{"):
        return None
    try:
        found = json.parse(line)
    except json.BadJson:
        return None
    return found if isinstance(found, dict) and isinstance(found.get("message"), str) else None


def message_in(line: str) -> str:
    """What a line says, without the rest of its JSON."""
    said = fields_of(line)
    return line if said is None else str(said["message"])


@frozen
class Printer:
    """Gives ``write`` each line that a component prints, in the one form that was asked for."""

    write: Callable[[str], object]  # never waits, never fails
    as_json: bool = False
    wall_clock: Callable[[], float] = epoch

    def __call__(self, name: str, line: str) -> None:
        self.write(self._for_machines(name, line) if self.as_json else _for_people(name, line))

    def _for_machines(self, name: str, line: str) -> str:
        said = fields_of(line)
        if said is None:
            found = _READABLE.fullmatch(line)
            level, space, text = found.groups()[1:] if found else ("info", "-", line)
            said = line_head(self.wall_clock(), level, space, visible(text))
            if found:
                said["time"] = found[1]
        head = {one: name if one == "service" else said.get(one) for one in HEAD}
        return json.dump_ascii({**head, **said, "service": name}) + "\n"


def _for_people(name: str, line: str) -> str:
    said = fields_of(line)
    if said is None:
        return f"[{name}] {visible(line)}\n"
    space = str(said.get("namespace", "-")).removeprefix("svcserver.")
    message = said["message"]
    text = f"{said.get('time', '-')} {said.get('level', 'info')} {space}: {message}"
    for field, value in said.items():
        if field in HEAD or field == "traceback" or value in (None, ""):
            continue
        if not _is_told(value, message):  # most messages are made of the fields
            text += f" {field}={_shown(value)}"
    lines = [text, *str(said.get("traceback") or "").strip("\n").split("\n")]
    return "".join(f"[{name}] {visible(one)}\n" for one in lines if one)


def _is_told(value: Any, message: str) -> bool:
    """Whether the message has the value as a word or number of its own, maybe rounded."""
    forms = [visible(value)] if isinstance(value, str) else [_shown(value)]
    if isinstance(value, float):
        forms += [f"{value:.{digits}f}" for digits in range(3)]
    return any(_has(visible(message), form) for form in forms)


def _has(message: str, form: str) -> bool:
    """Whether ``form`` stands in the message, and not within a longer word or number."""
    at = message.find(form)
    while at >= 0:
        end = at + len(form)
        before, after = message[at - 1 : at + 1], message[end - 1 : end + 2]
        if not (at and _GOES_ON_BEFORE.match(before)) and not _GOES_ON_AFTER.match(after):
            return True
        at = message.find(form, at + 1)
    return False


def _shown(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return value
    return json.dump(value).decode()

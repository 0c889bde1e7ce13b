"""Prints a component's line for ``svc-stack``: readable for people, or as JSON for machines."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.system import epoch
from svcserver.web.logs import IN_MESSAGE, line_head

HEAD = ("time", "level", "service", "namespace", "message")
_READABLE = re.compile(r"(\S+Z) (debug|info|warn|error|critical) (\S+): (.*)")


def fields_of(line: str) -> dict[str, Any] | None:
    """The members of a JSON line of a service; None for any other text."""
    if not line.startswith("{"):
        return None
    try:
        fields = json.parse(line)
    except json.BadJson:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("message"), str) else None


def message_in(line: str) -> str:
    """Return the message of a line, without the rest of its JSON."""
    fields = fields_of(line)
    return line if fields is None else str(fields["message"])


@frozen
class Printer:
    """Gives ``write`` each line that a component prints, in the one form that was asked for."""

    write: Callable[[str], object]  # never waits, never fails
    as_json: bool = False
    wall_clock: Callable[[], float] = epoch

    def __call__(self, name: str, line: str) -> None:
        self.write(self._for_machines(name, line) if self.as_json else _for_people(name, line))

    def _for_machines(self, name: str, line: str) -> str:
        fields = fields_of(line)
        if fields is None:
            readable = _READABLE.fullmatch(line)
            level, space, text = readable.groups()[1:] if readable else ("info", "-", line)
            fields = line_head(self.wall_clock(), level, space, visible(text))
            if readable:
                fields["time"] = readable[1]
        fields.pop(IN_MESSAGE, None)
        head = {member: name if member == "service" else fields.get(member) for member in HEAD}
        return json.dump_ascii({**head, **fields, "service": name}) + "\n"


def _for_people(name: str, line: str) -> str:
    fields = fields_of(line)
    if fields is None:
        return f"[{name}] {visible(line)}\n"
    space = str(fields.get("namespace", "-")).removeprefix("svcserver.")
    message = fields["message"]
    text = f"{fields.get('time', '-')} {fields.get('level', 'info')} {space}: {message}"
    in_message = fields.pop(IN_MESSAGE, ())
    shown_already = {*HEAD, "traceback", *(in_message if isinstance(in_message, list) else ())}
    for field, value in fields.items():
        if field not in shown_already and value not in (None, ""):
            text += f" {field}={_shown(value)}"
    lines = [text, *str(fields.get("traceback") or "").strip("\n").split("\n")]
    return "".join(f"[{name}] {visible(part)}\n" for part in lines if part)


def _shown(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return value
    return json.dump(value).decode()

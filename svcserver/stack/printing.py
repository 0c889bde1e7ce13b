"""The formatting of components' lines for ``svc-stack``: text for people, JSON for machines."""

import re
from collections.abc import Callable
from typing import Any

from attrs import frozen

from svcserver.kernel import json
from svcserver.kernel.foreign_text import visible
from svcserver.kernel.system import epoch
from svcserver.web.logs import line_head

HEAD = ("time", "level", "service", "namespace", "message")
_CONTINUES_BEFORE = re.compile(r"\w\w|\.\d")
_CONTINUES_AFTER = re.compile(r"[^\W\d]{2}|\d\.?\d")  # a unit may follow a number
_READABLE = re.compile(r"(\S+Z) (debug|info|warn|error|critical) (\S+): (.*)")


def fields_of(line: str) -> dict[str, Any] | None:
    """Return the fields of ``line`` if it is a service's JSON log line, otherwise None."""
    if not line.startswith("{"):
        return None
    try:
        fields = json.parse(line)
    except json.BadJson:
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("message"), str) else None


def message_in(line: str) -> str:
    """Return a log line's message, without the other JSON fields."""
    fields = fields_of(line)
    return line if fields is None else str(fields["message"])


@frozen
class Printer:
    """The printer of components' log lines; each line goes to ``write``, as text or as JSON."""

    write: Callable[[str], object]  # never waits, never fails
    as_json: bool = False
    wall_clock: Callable[[], float] = epoch

    def __call__(self, name: str, line: str) -> None:
        self.write(self._for_machines(name, line) if self.as_json else _for_people(name, line))

    def _for_machines(self, name: str, line: str) -> str:
        fields = fields_of(line)
        if fields is None:
            match = _READABLE.fullmatch(line)
            level, space, text = match.groups()[1:] if match else ("info", "-", line)
            fields = line_head(self.wall_clock(), level, space, visible(text))
            if match:
                fields["time"] = match[1]
        head = {key: name if key == "service" else fields.get(key) for key in HEAD}
        return json.dump_ascii({**head, **fields, "service": name}) + "\n"


def _for_people(name: str, line: str) -> str:
    fields = fields_of(line)
    if fields is None:
        return f"[{name}] {visible(line)}\n"
    space = str(fields.get("namespace", "-")).removeprefix("svcserver.")
    message = fields["message"]
    text = f"{fields.get('time', '-')} {fields.get('level', 'info')} {space}: {message}"
    for field, value in fields.items():
        if field in HEAD or field == "traceback" or value in (None, ""):
            continue
        if not _is_in_message(value, message):  # most messages are made of the fields
            text += f" {field}={_shown(value)}"
    lines = [text, *str(fields.get("traceback") or "").strip("\n").split("\n")]
    return "".join(f"[{name}] {visible(line)}\n" for line in lines if line)


def _is_in_message(value: Any, message: str) -> bool:
    """Return whether the message already shows the value, or a rounded form of it."""
    forms = [visible(value)] if isinstance(value, str) else [_shown(value)]
    if isinstance(value, float):
        forms += [f"{value:.{digits}f}" for digits in range(3)]
    return any(_has(visible(message), form) for form in forms)


def _has(message: str, form: str) -> bool:
    """Return whether ``form`` is in the message, but not as part of a longer word or number."""
    at = message.find(form)
    while at >= 0:
        end = at + len(form)
        before, after = message[at - 1 : at + 1], message[end - 1 : end + 2]
        if not (at and _CONTINUES_BEFORE.match(before)) and not _CONTINUES_AFTER.match(after):
            return True
        at = message.find(form, at + 1)
    return False


def _shown(value: Any) -> str:
    if isinstance(value, str) and value.isprintable() and " " not in value:
        return value
    return json.dump(value).decode()

"""Settings: a frozen attrs class per component, one line per environment variable.

    @frozen
    class Settings:
        port: int = env("PORT", whole(1, 65535))
        chat: bool = env("CHAT", off_unless_1, default=False, bad=Bad.WARN)

``load`` fills an instance of the class from the environment. The argument ``bad`` is the effect
of a bad value. ``Bad.FAIL`` raises ``BadSetting``, whose one-line message gives the variable, the
fault and the remedy, but never the value, which may be a secret. ``Bad.WARN`` returns the same
message as a warning and uses the default.

The readers below return the value or raise ``ValueError`` with the remedy, such as ``must be a
whole number from 1 to 65535``.
"""

import ipaddress
import os
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from attrs import NOTHING, field, fields, setters

from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret

S = TypeVar("S")
Reader = Callable[[str], Any]


class BadSetting(Exception):
    """The error for a missing or bad setting; ``str()`` is the one line to print."""


class Bad(Enum):
    """The effect of a bad value; see the last column in docs/owners/configuration.md."""

    FAIL = "fail"
    WARN = "warn"


def env(
    name: str,
    read: Reader = str,
    *,
    default: Any = NOTHING,
    bad: Bad = Bad.FAIL,
    empty_is_a_value: bool = False,
    live: bool = False,
) -> Any:
    """Return a field of a settings class; its value is read from the variable ``name``.

    Without ``default`` the variable is required. If ``empty_is_a_value`` is false, an empty or
    blank value counts as unset. If ``live`` is true, the field may be assigned while the service
    runs, so code must read it at each use.
    """
    return field(
        default=default,
        kw_only=True,
        on_setattr=setters.NO_OP if live else None,
        metadata={
            "name": name,
            "read": read,
            "bad": bad,
            "empty": empty_is_a_value,
            "live": live,
        },
    )


def load(shape: type[S], environ: Mapping[str, str]) -> tuple[S, list[str]]:
    """Return an instance of ``shape`` with values from ``environ``, and a list of warnings.

    The caller logs the warnings as soon as logging works.
    """
    values: dict[str, Any] = {}
    warnings: list[str] = []
    for attribute in fields(shape):  # type: ignore[arg-type]  # attrs types the class, not its instances
        name = attribute.metadata["name"]
        text = environ.get(name)
        if text is None or (not text.strip() and not attribute.metadata["empty"]):
            if attribute.default is NOTHING:
                raise BadSetting(f"{name} is not set; give it a value")
            continue
        try:
            values[attribute.name] = attribute.metadata["read"](text)
        except ValueError as error:
            line = f"{name} {error}"
            if attribute.metadata["bad"] is Bad.FAIL or attribute.default is NOTHING:
                raise BadSetting(line) from None
            warnings.append(f"{line}; using the default")
    return shape(**values), warnings


def variables(shape: type[Any]) -> Sequence[str]:
    """Return, in order, the names of the environment variables that ``shape`` reads."""
    return [attribute.metadata["name"] for attribute in fields(shape)]


def with_env_file(path: str | None, environ: Mapping[str, str]) -> dict[str, str]:
    """Return ``environ`` and the variables of a file; ``environ`` takes precedence."""
    if path is None:
        return dict(environ)
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise BadSetting(f"the env file {path} cannot be read: {reason}") from None
    return {**parse_env_file(text), **environ}


def parse_env_file(text: str) -> dict[str, str]:
    """Parse ``KEY=value`` lines and ``#`` comments; drop one pair of quotes around a value."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        key, value = key.strip().removeprefix("export ").strip(), value.strip()
        if not equals or not key or key.startswith("#"):
            continue
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        values[key] = value
    return values


# -- readers -------------------------------------------------------------------


def folder(text: str) -> Path:
    """Read the name of a folder; raises ValueError if the folder does not exist."""
    path = Path(text.strip())
    if not os.path.isdir(path):  # unlike Path.is_dir, False for a name that is too long
        raise ValueError("must be a folder that exists")
    return path


def whole(low: int, high: int | None = None) -> Reader:
    """Return a reader of whole numbers within these bounds."""

    def read(text: str) -> int:
        words = f"from {low} to {high}" if high is not None else f"of at least {low}"
        value = whole_in(text.strip(), 15)
        if value is None or value < low or (high is not None and value > high):
            raise ValueError(f"must be a whole number {words}")
        return value

    return read


def number(low: float, high: float | None = None, *, above: bool = False) -> Reader:
    """Return a reader of decimal numbers from ``low`` to ``high``.

    If ``above`` is true, the number must be greater than ``low``.
    """

    def read(text: str) -> float:
        words = f"{'above' if above else 'of at least'} {low:g}"
        words += f" and at most {high:g}" if high is not None else ""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        inside = value > low if above else value >= low
        if not inside or value == float("inf") or (high is not None and value > high):
            raise ValueError(f"must be a number {words}")
        return value

    return read


port = whole(1, 65535)


def on_unless_0(text: str) -> bool:
    """Read a switch that is on by default: only ``0`` turns it off."""
    return text.strip() != "0"


def off_unless_1(text: str) -> bool:
    """Read a switch that is off by default: only ``1`` turns it on."""
    return text.strip() == "1"


def zero_or_one(words: str = "must be 0 or 1") -> Reader:
    """Return a reader of a switch, ``0`` or ``1``; ``words`` is the message for any other value."""

    def read(text: str) -> bool:
        if text.strip() not in ("0", "1"):
            raise ValueError(words)
        return off_unless_1(text)

    return read


def one_of(*words: str, any_case: bool = False) -> Reader:
    """Return a reader that accepts only these words."""

    def read(text: str) -> str:
        value = text.strip().lower() if any_case else text.strip()
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return value

    return read


log_level = one_of("debug", "info", "warn", "error", any_case=True)
"""The reader of LOG_LEVEL for the relay and for services whose log lines are always JSON."""


def ip_address(text: str) -> str:
    """Read one IPv4 or IPv6 address."""
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError("must be one IP address") from None


def comma_list(text: str) -> tuple[str, ...]:
    """Read a comma-separated list; entries are trimmed, and empty entries are dropped."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def ip_list(text: str) -> tuple[str, ...]:
    """Read a comma-separated list of IP addresses; other entries are ignored.

    The addresses are returned in the form in which sockets report them.
    """
    addresses = []
    for part in comma_list(text):
        try:
            address = ipaddress.ip_address(part)
        except ValueError:
            continue
        addresses.append(str(getattr(address, "ipv4_mapped", None) or address))
    return tuple(addresses)


def secret(text: str) -> Secret:
    """Wrap a setting in a Secret, so that no repr shows it."""
    return Secret(text)


def strong_secret(text: str) -> Secret:
    """Read a secret of 32 to 256 printable ASCII characters without spaces."""
    if not 32 <= len(text) <= 256 or not all("!" <= char <= "~" for char in text):
        raise ValueError("must be 32 to 256 printable ASCII characters without spaces")
    return Secret(text)


def printable(longest: int) -> Reader:
    """Return a reader of trimmed printable ASCII of at most ``longest`` characters."""

    def read(text: str) -> str:
        value = text.strip()
        if not 1 <= len(value) <= longest or not all(" " <= char <= "~" for char in value):
            raise ValueError(f"must be 1 to {longest} printable ASCII characters")
        return value

    return read

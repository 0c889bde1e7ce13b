"""JSON data files of the package, which an owner may replace; a bad one ends the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

import orjson

from svcserver.kernel.foreign_text import failed_start

T = TypeVar("T")


class BadData(ValueError):
    """A data file cannot be used; the message names the file, the fault and the cure."""


@contextmanager
def needed_by(service: str) -> Iterator[None]:
    """A bad data file ends the start of the service with one line."""
    try:
        yield
    except BadData as why:
        raise failed_start(f"{service}: {why}") from None


def load(package: str, name: str, make: Callable[[dict[str, Any]], T]) -> T:
    """What ``make`` makes of the JSON object in ``data/<name>``; raises BadData.

    ``make`` raises ValueError with what is wrong; what is missing shows by itself.
    """
    said = read(package, name)
    try:
        return make(said)
    except KeyError as why:
        raise BadData(fault(package, name, f"has no {why}")) from None
    except (ValueError, TypeError, IndexError, AttributeError) as why:
        raise BadData(fault(package, name, str(why))) from None


def read(package: str, name: str) -> dict[str, Any]:
    """The JSON object in ``data/<name>`` of a package; raises BadData."""
    try:
        value = orjson.loads(files(package).joinpath("data", name).read_bytes())
    except (OSError, ValueError) as why:
        raise BadData(fault(package, name, f"cannot be read: {why}")) from None
    if not isinstance(value, dict):
        raise BadData(fault(package, name, "is not a JSON object"))
    return value


def fault(package: str, name: str, what: str) -> str:
    """The message of a BadData about ``data/<name>``: what is wrong, and the cure."""
    place = package.replace(".", "/")
    return f"{place}/data/{name}: {what}; correct the file or restore the shipped one"

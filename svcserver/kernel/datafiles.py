"""The package's JSON data files, which an owner may replace; an invalid file prevents the start."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeVar

import orjson

from svcserver.kernel.foreign_text import failed_start

T = TypeVar("T")


class BadData(ValueError):
    """The error for an unusable data file; it names the file, the cause and the remedy."""


@contextmanager
def needed_by(service: str) -> Iterator[None]:
    """Exit with a one-line message if the ``with`` block reads an invalid data file."""
    try:
        yield
    except BadData as error:
        raise failed_start(f"{service}: {error}") from None


def load(package: str, name: str, make: Callable[[dict[str, Any]], T]) -> T:
    """Build an object with ``make`` from the JSON in ``data/<name>``; raises BadData.

    ``make`` raises ValueError to report a fault; missing keys are reported automatically.
    """
    content = read_json(package, name)
    try:
        return make(content)
    except KeyError as error:
        raise BadData(fault(package, name, f"has no {error}")) from None
    except (ValueError, TypeError, IndexError, AttributeError) as error:
        raise BadData(fault(package, name, str(error))) from None


def read_json(package: str, name: str) -> dict[str, Any]:
    """Return the JSON object in a package's file ``data/<name>``; raises BadData."""
    try:
        value = orjson.loads(files(package).joinpath("data", name).read_bytes())
    except (OSError, ValueError) as error:
        raise BadData(fault(package, name, f"cannot be read: {error}")) from None
    if not isinstance(value, dict):
        raise BadData(fault(package, name, "is not a JSON object"))
    return value


def fault(package: str, name: str, what: str) -> str:
    """Return the message for the error BadData: the file, the cause ``what`` and the remedy."""
    place = package.replace(".", "/")
    return f"{place}/data/{name}: {what}; correct the file or restore the shipped one"

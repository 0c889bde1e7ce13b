"""JSON data files of the package, which an owner may replace; a bad one ends the start."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import orjson


class BadData(ValueError):
    """A data file cannot be used; the message names the file, the fault and the cure."""


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

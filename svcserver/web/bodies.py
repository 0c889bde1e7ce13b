"""Bodies: JSON or a form into the shape a row asks for, strictly and once."""

from __future__ import annotations

from typing import Any, TypeVar

import cattrs

from svcserver.kernel import json
from svcserver.kernel.refusals import Malformed, TooLarge
from svcserver.web.request import HttpRequest, parse_query

T = TypeVar("T")
MAX_FORM = 100 * 1024  # bytes; the original web framework's default. Spec: 1 §4 convention 3

_STRICT = cattrs.Converter(detailed_validation=False)


def _exactly(kind: type[Any]) -> Any:
    def structure(value: Any, _: Any) -> Any:
        if type(value) is not kind:
            raise TypeError(f"expected {kind.__name__}")
        if kind is str and "\0" in value:
            raise ValueError("a text holds a NUL")
        return value

    return structure


def _any_number(value: Any, _: Any) -> float:
    if type(value) not in (int, float):
        raise TypeError("expected a number")
    return float(value)


for _kind in (int, str, bool):
    _STRICT.register_structure_hook(_kind, _exactly(_kind))
_STRICT.register_structure_hook(float, _any_number)


def parse(request: HttpRequest) -> json.Json:
    """The body as JSON or form, by its Content-Type. Raises ``json.BadJson``."""
    if not request.body:
        return {}
    kind = request.header(b"content-type")
    if kind is not None and kind.lower().startswith("application/x-www-form-urlencoded"):
        if len(request.body) > MAX_FORM:
            raise TooLarge("the form is too large")
        return dict(parse_query(request.body))
    return json.parse(request.body)


def structure(value: json.Json, shape: type[T]) -> T:
    """``value`` as an instance of ``shape``; raises Malformed when it does not fit."""
    try:
        return _STRICT.structure(value, shape)
    except (ValueError, TypeError, KeyError, AttributeError, cattrs.BaseValidationError) as why:
        raise Malformed("the body has the wrong shape", code="bad_request") from why

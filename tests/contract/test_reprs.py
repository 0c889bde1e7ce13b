"""The repr of our objects never shows a key or token, because tracebacks and logs print reprs."""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from attrs import fields, has
from twisted.trial.unittest import SynchronousTestCase

import svcserver
from svcserver.http.heads import read_request, read_response
from svcserver.metagame.rows import Caller
from svcserver.web.routes import Answer

SECRET = re.compile(r"token|secret|passw|bearer|credential|uuk|jwt|_key$|^key$|private_", re.I)
HARMLESS = {
    ("MetagameSettings", "signing_public_key"),
    ("Purchase", "token_hash"),
    ("QuotaPlace", "key"),  # of the board: an account
    ("Room", "key"),  # of a chat room: its address
    ("Row", "secret_path"),  # names of parameters
    ("WebRow", "secret_path"),
}


def classes() -> Iterator[type[Any]]:
    """Return every attrs class in the package."""
    for module in walk_packages(svcserver.__path__, "svcserver."):
        if ".migrations." in module.name:
            continue
        for member in vars(import_module(module.name)).values():
            if inspect.isclass(member) and member.__module__ == module.name and has(member):
                yield member


class ReprTests(SynchronousTestCase):
    def test_no_field_that_is_named_like_a_secret_is_shown_as_text(self) -> None:
        shown = [
            f"{kind.__module__}.{kind.__name__}.{field.name}"
            for kind in classes()
            for field in fields(kind)
            if field.repr
            and SECRET.search(field.name)
            and re.search(r"\b(str|bytes|Any)\b", str(field.type))
            and (kind.__name__, field.name) not in HARMLESS
        ]
        self.assertEqual(shown, [])

    def test_reprs_of_heads_answers_and_callers_show_no_secret(self) -> None:
        raw = b"GET /x?token=hush HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer hush\r\n\r\n"
        for thing in (
            read_request(raw),
            read_response(b"HTTP/1.1 200 OK\r\nX-Key: hush\r\n\r\n", b"GET"),
            Answer(200, {"access_token": "hush"}),
            Caller("UID-a", bearer="hush"),
        ):
            self.assertNotIn("hush", repr(thing))

"""The OpenAPI document is self-contained: it defines every name that its texts use."""

import re
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import PUBLIC_MANAGEMENT
from svcserver.metagame.owner.dashboard.document import EVERY_ROUTE, MEANINGS, PASSED, describe
from svcserver.metagame.rows import Access
from tests.support.game import Game

NAMED = re.compile(r"`([^`]+)`")
MODULE = re.compile(r"\b[a-z_]+\.[A-Z]\w+|\w+\.py\b|\w+\(\)")
EXAMPLE = re.compile(r"\{\}|\d+[smhd]|svcctl .*|Authorization: .*|Accept: .*|(https?|svc)://.*")
ROUTE = re.compile(r"(?:(?P<method>[A-Z]+) )?(?P<path>/\S+)\Z")
SETTING = re.compile(r"[A-Z]+(_[A-Z]+)+\Z")


class WordTests(SynchronousTestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.document = describe(Game(self, **EVERY_ROUTE).door.rows, "1")
        self.texts = list(texts(self.document))

    def test_no_text_points_into_the_source(self) -> None:
        self.assertGreater(len(self.texts), 300)
        rough = [
            text for text in self.texts if "``" in text or "Spec:" in text or MODULE.search(text)
        ]
        self.assertEqual(rough, [])

    def test_every_name_in_a_text_occurs_in_the_document(self) -> None:
        known = set(names(self.document)) | {*Access, "OPEN", "INVITECODE", "NONE"}
        named = {name: text for text in self.texts for name in NAMED.findall(text)}
        unknown = {name: text for name, text in named.items() if not self.is_known(name, known)}
        self.assertEqual(unknown, {})

    def is_known(self, name: str, known: set[str]) -> bool:
        if (route := ROUTE.match(name)) is not None:
            methods = self.document["paths"].get(route["path"].partition("?")[0], {})
            wanted = (route["method"] or "").lower()
            return name == "/svc/" or (bool(methods) and (not wanted or wanted in methods))
        plain = name.strip("?=")
        return plain in known or bool(SETTING.match(name) or EXAMPLE.fullmatch(name))

    def test_every_access_is_explained(self) -> None:
        self.assertEqual(set(MEANINGS), set(Access))
        for label in MEANINGS:
            self.assertIn(f"- `{label}`: ", self.document["info"]["description"])

    def test_each_management_route_says_whether_the_gateway_passes_it_on(self) -> None:
        passed = set()
        for path, methods in self.document["paths"].items():
            for method, operation in methods.items():
                phrases = [text for text in PASSED.values() if text in operation["description"]]
                self.assertEqual(len(phrases), int(path.startswith("/svc/")), path)
                if phrases == [PASSED[True]]:
                    passed.add((method.upper(), path.lower()))
        self.assertEqual(passed, {text for text in PUBLIC_MANAGEMENT if text[0] != "HEAD"})

    def test_every_shape_has_a_description(self) -> None:
        shapes = self.document["components"]["schemas"]
        self.assertEqual([text for text in shapes if not shapes[text]["description"]], [])

    def test_every_credential_has_a_description(self) -> None:
        schemes = self.document["components"]["securitySchemes"].values()
        self.assertEqual([text for text in schemes if not text.get("description")], [])


def texts(part: Any) -> Iterator[str]:
    """Yield every summary and description in the document, except in its examples."""
    if isinstance(part, list):
        for text in part:
            yield from texts(text)
    elif isinstance(part, dict):
        for name, text in part.items():
            if name in ("summary", "description") and isinstance(text, str):
                yield text
            elif name != "example":
                yield from texts(text)


def names(part: Any) -> Iterator[str]:
    """Yield the names that a text may use: members, arguments, shapes, errors, and so on."""
    if isinstance(part, list):
        for text in part:
            yield from names(text)
    elif isinstance(part, dict):
        for kind in ("properties", "schemas", "responses", "securitySchemes"):
            yield from part.get(kind, {})
        yield from (value for value in part.get("enum", ()) if isinstance(value, str))
        if isinstance(part.get("name"), str):
            yield part["name"]
        for name, text in part.items():
            if name != "example":
                yield from names(text)

"""Strangers can read the OpenAPI document: every name in its texts stands somewhere in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from svcserver.gateway.policy import PUBLIC_MANAGEMENT
from svcserver.metagame.owner.dashboard.document import (
    EVERY_ROUTE,
    MEANINGS,
    PASSED,
    describe,
)
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
        self.said = describe(Game(self, **EVERY_ROUTE).door.rows, "1")
        self.texts = list(texts(self.said))

    def test_no_text_points_into_the_source(self) -> None:
        self.assertGreater(len(self.texts), 300)
        rough = [one for one in self.texts if "``" in one or "Spec:" in one or MODULE.search(one)]
        self.assertEqual(rough, [])

    def test_every_name_in_a_text_is_one_of_the_document(self) -> None:
        known = set(names(self.said)) | {*Access, "OPEN", "INVITECODE", "NONE"}
        named = {name: one for one in self.texts for name in NAMED.findall(one)}
        unknown = {name: one for name, one in named.items() if not self.is_known(name, known)}
        self.assertEqual(unknown, {})

    def is_known(self, name: str, known: set[str]) -> bool:
        if (route := ROUTE.match(name)) is not None:
            methods = self.said["paths"].get(route["path"].partition("?")[0], {})
            wanted = (route["method"] or "").lower()
            return name == "/svc/" or (bool(methods) and (not wanted or wanted in methods))
        plain = name.strip("?=")
        return plain in known or bool(SETTING.match(name) or EXAMPLE.fullmatch(name))

    def test_every_access_is_explained(self) -> None:
        self.assertEqual(set(MEANINGS), set(Access))
        for label in MEANINGS:
            self.assertIn(f"- `{label}`: ", self.said["info"]["description"])

    def test_each_management_route_says_whether_the_gateway_passes_it_on(self) -> None:
        passed = set()
        for path, methods in self.said["paths"].items():
            for method, operation in methods.items():
                said = [one for one in PASSED.values() if one in operation["description"]]
                self.assertEqual(len(said), int(path.startswith("/svc/")), path)
                if said == [PASSED[True]]:
                    passed.add((method.upper(), path.lower()))
        self.assertEqual(passed, {one for one in PUBLIC_MANAGEMENT if one[0] != "HEAD"})

    def test_every_shape_says_what_it_is(self) -> None:
        shapes = self.said["components"]["schemas"]
        self.assertEqual([one for one in shapes if not shapes[one]["description"]], [])

    def test_every_credential_says_how_it_is_got(self) -> None:
        schemes = self.said["components"]["securitySchemes"].values()
        self.assertEqual([one for one in schemes if not one.get("description")], [])


def texts(said: Any) -> Iterator[str]:
    """Every summary and description of the document; examples have none."""
    if isinstance(said, list):
        for one in said:
            yield from texts(one)
    elif isinstance(said, dict):
        for name, one in said.items():
            if name in ("summary", "description") and isinstance(one, str):
                yield one
            elif name != "example":
                yield from texts(one)


def names(said: Any) -> Iterator[str]:
    """What a text may speak of: members, arguments, shapes, refusals, values and credentials."""
    if isinstance(said, list):
        for one in said:
            yield from names(one)
    elif isinstance(said, dict):
        for kind in ("properties", "schemas", "responses", "securitySchemes"):
            yield from said.get(kind, {})
        yield from (one for one in said.get("enum", ()) if isinstance(one, str))
        if isinstance(said.get("name"), str):
            yield said["name"]
        for name, one in said.items():
            if name != "example":
                yield from names(one)

"""The contract of our own that import-linter checks."""

from __future__ import annotations

from grimp import ImportGraph
from twisted.trial.unittest import SynchronousTestCase

from tests.contract.imports import not_allowed


class OwnModulesTests(SynchronousTestCase):
    def broken(self, importer: str, imported: str) -> object:
        graph = ImportGraph()
        for name in ("game", "game.top", importer, imported):
            graph.add_module(name)
        graph.add_import(importer=importer, imported=imported)
        return not_allowed(graph, "game", ["routes", "acts"], ["game.top"])

    def test_another_features_routes_are_not_to_be_imported(self) -> None:
        found = ("game.b.routes", "game.a.routes")
        self.assertEqual(self.broken(*found), [found])
        self.assertEqual(self.broken("game.b", "game.a.acts"), [("game.b", "game.a.acts")])

    def test_ones_own_and_other_names_are_and_the_composition_takes_all(self) -> None:
        for importer, imported in (
            ("game.a.routes", "game.a.acts"),
            ("game.b.routes", "game.a.rules"),
            ("game.top", "game.a.routes"),
        ):
            self.assertEqual(self.broken(importer, imported), [])

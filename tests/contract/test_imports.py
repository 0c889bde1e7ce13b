"""Our own contract for import-linter."""

from grimp import ImportGraph
from twisted.trial.unittest import SynchronousTestCase

from tests.contract.imports import not_allowed

OWNERS = ("ctl", ["acts"])


class FeaturesTests(SynchronousTestCase):
    def broken(self, importer: str, imported: str) -> object:
        graph = ImportGraph()
        for name in ("game", "game.top", "game.a", "game.a.routes", "game.group"):
            graph.add_module(name)
        for name in (importer, imported):
            graph.add_module(name)
        graph.add_import(importer=importer, imported=imported)
        return not_allowed(graph, "game", ["rules", "store"], ["game.top"], OWNERS)

    def test_whatever_a_feature_does_not_open_is_not_to_be_imported(self) -> None:
        for importer in ("game.b.routes", "game.b", "game.group.shared", "game.ab.rules"):
            for module in ("acts", "wire", "routes", "management_routes", "any_new_name"):
                import_ = (importer, f"game.a.{module}")
                self.assertEqual(self.broken(*import_), [import_])

    def test_the_command_line_may_not_import_wire_or_routes(self) -> None:
        for importer, module in (
            ("ctl.people", "wire"),
            ("ctl.people", "routes"),
            ("ctlx.people", "acts"),
        ):
            import_ = (importer, f"game.a.{module}")
            self.assertEqual(self.broken(*import_), [import_])

    def test_rules_stores_and_shared_modules_may_be_imported(self) -> None:
        for importer, imported in (
            ("game.a.routes", "game.a.acts"),
            ("ctl.people", "game.a.acts"),
            ("game.b.routes", "game.a.rules"),
            ("game.b.acts", "game.a.store"),
            ("game.b.acts", "game.group.shared"),
            ("game.top", "game.a.routes"),
        ):
            self.assertEqual(self.broken(importer, imported), [])

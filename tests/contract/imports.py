"""A contract for import-linter: modules of some names are for their own package only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def not_allowed(
    graph: ImportGraph, package: str, own: Collection[str], composition: Collection[str]
) -> list[tuple[str, str]]:
    """Importer and imported, where a module named in ``own`` is used from outside its package."""
    return sorted(
        (importer, module)
        for module in graph.find_descendants(package)
        if module.rpartition(".")[2] in own
        for importer in graph.find_modules_that_directly_import(module)
        if importer not in composition and not importer.startswith(module.rpartition(".")[0] + ".")
    )


class OwnModulesContract(Contract):
    """Under ``package``, a module whose name is in ``own`` is imported by its own package alone.

    ``composition`` lists the modules that may import them all.
    """

    type_name = "own_modules"

    package = fields.ModuleField()
    own = fields.ListField(subfield=fields.StringField())
    composition = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look at every import below the package."""
        options: Any = self
        broken = not_allowed(graph, options.package.name, options.own, options.composition)
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line for each import that is not allowed."""
        for importer, module in check.metadata["broken"]:
            output.print_error(f"{importer} imports {module}, which is for its own package only")

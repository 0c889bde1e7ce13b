"""A contract for import-linter: other packages may import only certain modules of a feature."""

from collections.abc import Collection
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


def not_allowed(
    graph: ImportGraph,
    package: str,
    opened: Collection[str],
    composition: Collection[str],
    owners: tuple[str, Collection[str]] = ("", ()),
) -> list[tuple[str, str]]:
    """Return (importer, imported) for each forbidden import of a feature's module.

    A feature is a package below ``package`` with a module ``routes`` or, if it is small,
    ``feature``. Other code may import only those modules of a feature that are named in ``opened``;
    all code may import modules outside features. ``composition`` lists modules that may import
    everything. ``owners`` is a pair: a package, and the names of further modules that this package
    may import.
    """
    modules = graph.find_descendants(package)
    features = {
        name.rpartition(".")[0] for name in modules if name.endswith((".routes", ".feature"))
    }
    return sorted(
        (importer, module)
        for module in modules
        if (feature := module.rpartition(".")[0]) in features
        and module.rpartition(".")[2] not in opened
        for importer in graph.find_modules_that_directly_import(module)
        if importer not in composition and not importer.startswith(f"{feature}.")
        if not (module.rpartition(".")[2] in owners[1] and importer.startswith(f"{owners[0]}."))
    )


class FeaturesContract(Contract):
    """Other packages import only those modules of a feature that are named in ``opened``.

    ``composition`` lists modules that may import all modules; ``owners`` is a package that
    may also import the modules named in ``opened_to_owners``.
    """

    type_name = "features"

    package = fields.ModuleField()
    opened = fields.ListField(subfield=fields.StringField())
    composition = fields.ListField(subfield=fields.StringField())
    owners = fields.StringField()
    opened_to_owners = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Check every import below the package."""
        options: Any = self
        package, owners = options.package.name, (options.owners, options.opened_to_owners)
        broken = not_allowed(graph, package, options.opened, options.composition, owners)
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each import that is not allowed."""
        for importer, module in check.metadata["broken"]:
            output.print_error(f"{importer} imports {module}, which is for its own feature only")

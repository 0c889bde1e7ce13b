"""Whose the packed dependencies are: paragraphs for ``debian/copyright``, from their metadata.

The whole texts are in the package already, each beside its program (``*.dist-info``); a
paragraph names the licence, the holders of the copyright, and where the text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

TEXTS = ("LICENSE*", "COPYING*", "NOTICE*", "licenses/**/*")
COMMON = Path("/usr/share/common-licenses")  # texts that every Debian has
ON_DEBIAN = {"Apache-2.0": "Apache-2.0", "LGPL-3.0-only": "LGPL-3", "MPL-2.0": "MPL-2.0"}
# names from before License-Expression, as SPDX has them
SPDX = {
    "MIT License": "MIT",
    "MIT License (MIT)": "MIT",
    "Apache License, Version 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
}
HOLDER = re.compile(r"(?mi)^[\s*#]*copyright\s+(?:\(c\)\s*|©\s*)?(.*\w.*)$")
# of the text of a licence itself, and what its readers shall fill in
NO_HOLDER = re.compile(r"\[yyyy\]|Free Software Foundation|(?i:notice|owner|holder|license)")


def paragraphs(packages: Path, installed: Path) -> str:
    """A paragraph for each package in a ``site-packages`` that will be ``installed`` elsewhere.

    The last one that fits a file counts, so who puts a file into another's folder comes last.
    """
    found = {one: _files(one) for one in packages.glob("*.dist-info")}
    order = sorted(found, key=lambda one: (_depth(found[one]), one.name.lower()))
    return "".join(f"\n{_paragraph(one, found[one], installed)}" for one in order)


def _paragraph(package: Path, names: list[str], installed: Path) -> str:
    said = HeaderParser().parsestr((package / "METADATA").read_text(encoding="utf-8"))
    found = {one for form in TEXTS for one in package.glob(form) if one.is_file()}
    texts = sorted(found)
    files = [str(Path(installed, name)).lstrip("/") for name in names]
    places = [str(Path(installed, one.relative_to(package.parent))) for one in texts]
    name = _license(said, texts)
    places += [str(COMMON / on) for spdx, on in ON_DEBIAN.items() if spdx in name]
    lines = [
        f"Files: {files[0]}",
        *(f" {one}" for one in files[1:]),
        *_folded("Copyright", _holders(said, texts)),
        f"License: {name.replace(' OR ', ' or ').replace(' AND ', ' and ')}",
        " The text is in",
        *(f" {one}" for one in places),
    ]
    if (package / "sboms").is_dir():
        where = Path(installed, package.name, "sboms")
        lines.append(f"Comment: What is compiled into it is listed in {where}")
    return "\n".join(lines) + "\n"


def _folded(field: str, values: list[str]) -> Iterator[str]:
    yield f"{field}: {values[0]}"
    yield from (f" {one}" for one in values[1:])


def _files(package: Path) -> list[str]:
    """What it put into site-packages: folders that are its own whole, and other files by name."""
    record = (package / "RECORD").read_text(encoding="utf-8").splitlines()
    paths = {Path(line.rpartition(",")[0].rpartition(",")[0]) for line in record}
    return sorted({_shortest(one, paths) for one in paths if one.parts[0] != ".."})


def _shortest(path: Path, paths: set[Path]) -> str:
    for folder in list(path.parents)[-2::-1]:
        if folder / "__init__.py" in paths or not folder.name.isidentifier():
            return f"{folder}/*"
    return str(path)


def _depth(files: list[str]) -> int:
    return max(one.count("/") for one in files)


def _license(said: Message, texts: list[Path]) -> str:
    """Its short name, from the field that says it best."""
    if not texts:
        raise SystemExit(
            f"{said['Name']} {said['Version']} has no licence's text: "
            "ask its makers, or add it to TEXTS in packaging/licenses.py"
        )
    old = str(said["License"] or "")
    classified = [
        str(one).rpartition(" :: ")[2]
        for one in said.get_all("Classifier", [])
        if str(one).startswith("License :: ")
    ]
    short = [old] if old and "\n" not in old and len(old) < 40 else classified
    names = [SPDX.get(one, one) for one in short]
    return str(said["License-Expression"] or " OR ".join(names) or _first_line(texts[0]))


def _first_line(text: Path) -> str:
    """What a licence calls itself."""
    line = text.read_text(encoding="utf-8").strip().partition("\n")[0].strip()
    return SPDX.get(line.removeprefix("The "), line)


def _holders(said: Message, texts: list[Path]) -> list[str]:
    """Those whom the licence's text names, else those whom the metadata names."""
    whole = "\n".join(one.read_text(encoding="utf-8", errors="replace") for one in texts)
    named = [one.strip().rstrip(".,") for one in HOLDER.findall(whole)]
    holders = [
        one if re.search("[A-Za-z]", one) else f"{one}, those whom its text names"
        for one in dict.fromkeys(named)
        if not NO_HOLDER.search(one)
    ]
    people = [said[key] for key in ("Author", "Author-email", "Maintainer") if said[key]]
    return holders or [str(one) for one in people[:1]] or [f"the authors of {said['Name']}"]

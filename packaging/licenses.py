"""Paragraphs for ``debian/copyright``, from the metadata of the packed dependencies.

The package already contains the full licence texts (in each ``*.dist-info``). A paragraph names
the licence, the copyright holders, and the path of the text.
"""

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
# lines about the licence text itself, and placeholders to fill in
NO_HOLDER = re.compile(r"\[yyyy\]|Free Software Foundation|(?i:notice|owner|holder|license)")


def paragraphs(packages: Path, installed: Path) -> str:
    """Return a paragraph for each package in a ``site-packages`` that will move to ``installed``.

    The last paragraph that matches a file applies, so packages with deeper paths come last: they
    may put files into the folder of another package.
    """
    files_of = {package: _files(package) for package in packages.glob("*.dist-info")}
    order = sorted(files_of, key=lambda package: (_depth(files_of[package]), package.name.lower()))
    return "".join(f"\n{_paragraph(package, files_of[package], installed)}" for package in order)


def _paragraph(package: Path, names: list[str], installed: Path) -> str:
    metadata = HeaderParser().parsestr((package / "METADATA").read_text(encoding="utf-8"))
    texts = sorted({path for form in TEXTS for path in package.glob(form) if path.is_file()})
    files = [str(Path(installed, name)).lstrip("/") for name in names]
    places = [str(Path(installed, path.relative_to(package.parent))) for path in texts]
    name = _license(metadata, texts)
    places += [str(COMMON / on) for spdx, on in ON_DEBIAN.items() if spdx in name]
    lines = [
        f"Files: {files[0]}",
        *(f" {path}" for path in files[1:]),
        *_folded("Copyright", _holders(metadata, texts)),
        f"License: {name.replace(' OR ', ' or ').replace(' AND ', ' and ')}",
        " The text is in",
        *(f" {path}" for path in places),
    ]
    if (package / "sboms").is_dir():
        where = Path(installed, package.name, "sboms")
        lines.append(f"Comment: What is compiled into it is listed in {where}")
    return "\n".join(lines) + "\n"


def _folded(field: str, values: list[str]) -> Iterator[str]:
    yield f"{field}: {values[0]}"
    yield from (f" {value}" for value in values[1:])


def _files(package: Path) -> list[str]:
    """Return the package's own folders and files in site-packages."""
    record = (package / "RECORD").read_text(encoding="utf-8").splitlines()
    paths = {Path(line.rpartition(",")[0].rpartition(",")[0]) for line in record}
    return sorted({_shortest(path, paths) for path in paths if path.parts[0] != ".."})


def _shortest(path: Path, paths: set[Path]) -> str:
    for folder in list(path.parents)[-2::-1]:
        if folder / "__init__.py" in paths or not folder.name.isidentifier():
            return f"{folder}/*"
    return str(path)


def _depth(files: list[str]) -> int:
    return max(path.count("/") for path in files)


def _license(metadata: Message, texts: list[Path]) -> str:
    """Return the licence's short name, from the most precise field of the metadata."""
    if not texts:
        raise SystemExit(
            f"{metadata['Name']} {metadata['Version']} comes without a licence text: "
            "ask its authors, or add the text to TEXTS in packaging/licenses.py"
        )
    old = str(metadata["License"] or "")
    classified = [
        str(classifier).rpartition(" :: ")[2]
        for classifier in metadata.get_all("Classifier", [])
        if str(classifier).startswith("License :: ")
    ]
    short = [old] if old and "\n" not in old and len(old) < 40 else classified
    names = [SPDX.get(classifier, classifier) for classifier in short]
    return str(metadata["License-Expression"] or " OR ".join(names) or _first_line(texts[0]))


def _first_line(text: Path) -> str:
    """Return the name in the first line of a licence's text."""
    line = text.read_text(encoding="utf-8").strip().partition("\n")[0].strip()
    return SPDX.get(line.removeprefix("The "), line)


def _holders(metadata: Message, texts: list[Path]) -> list[str]:
    """Return the copyright holders in the licence's text, or else those in the metadata."""
    whole = "\n".join(text.read_text(encoding="utf-8", errors="replace") for text in texts)
    named = [text.strip().rstrip(".,") for text in HOLDER.findall(whole)]
    holders = [
        text if re.search("[A-Za-z]", text) else f"{text}, those whom its text names"
        for text in dict.fromkeys(named)
        if not NO_HOLDER.search(text)
    ]
    people = [metadata[key] for key in ("Author", "Author-email", "Maintainer") if metadata[key]]
    return holders or [str(text) for text in people[:1]] or [f"the authors of {metadata['Name']}"]

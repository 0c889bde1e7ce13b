"""Lists the components of a host, the launcher and the image (CycloneDX): ``make sbom``.

    python packaging/sbom.py [DIST]

This program writes the first two lists from the locks, and from the parts of the launcher for
Windows. image.py writes the third from the Debian packages in the image. Two runs on the same
locks, or the same image, are identical byte for byte.
"""

import json
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from email.parser import HeaderParser
from os.path import normpath
from pathlib import Path
from urllib.parse import quote

from building import ROOT, run, target, version
from launcher_windows import PARTS
from suite import SUITE

STATUS = "./var/lib/dpkg/status"
# in an environment of its own: requirements/audit.lock
TOOL = Path(sys.prefix, "audit", "bin", "cyclonedx-py")
MADE_OF = {
    "svcserver": ("pyproject.toml", ("run",)),
    "svc-launcher": ("packaging/launcher/pyproject.toml", ("launcher", "launcher-windows")),
}


def main() -> None:
    """Write the lists of pinned dependencies, and print their paths."""
    need_tool()
    for made in write_pinned(target()):
        print(f"{made} (CycloneDX)")


def need_tool() -> None:
    """Exit with a one-line error message if the program that reads the locks is missing.

    ``make`` tries to install it beforehand, and continues if the installation fails.
    """
    if not TOOL.exists():
        pip = f"{TOOL.with_name('pip')} install --require-hashes -r requirements/audit.lock"
        where = "if the package index can be reached"
        raise SystemExit(f"{TOOL} is missing; make sbom installs it {where}, with {pip}")


def write_pinned(dist: Path) -> Iterator[Path]:
    """Write the lists of the dependencies of ``svcserver`` and ``svc-launcher`` to ``dist``."""
    for name, (project, locks) in MADE_OF.items():
        path = dist / f"{name}-{version()}-sbom.json"
        texts = [(ROOT / "requirements" / f"{lock}.lock").read_text() for lock in locks]
        with tempfile.TemporaryDirectory() as folder:
            lock = Path(folder, "pinned.lock")
            lock.write_text("".join(texts))
            words = ("--pyproject", ROOT / project, "--mc-type", "application")
            words += ("--output-reproducible", "--of", "JSON", "-o", path)
            run(TOOL, "requirements", lock, *words, PYTHONWARNINGS="ignore")
        if name == "svc-launcher":
            document = json.loads(path.read_text())
            document["components"] += windows_parts()
            path.write_text(json.dumps(document, indent=2) + "\n")
        yield path


def windows_parts() -> Iterator[dict[str, object]]:
    """Yield a component for each part of the launcher for Windows that no lock names."""
    for part in PARTS:
        kind = "name" if " " in part.licence else "id"
        yield {
            "type": "library",
            "bom-ref": part.purl,
            "name": part.name,
            "version": part.version,
            "purl": part.purl,
            "licenses": [{"license": {kind: part.licence}}],
            "properties": [
                {"name": "svcserver:file", "value": normpath(f"app/{file}")} for file in part.files
            ],
        }


def write_image(system: Path, path: Path) -> None:
    """Write the list of the Debian packages in ``system``, the tar of the image's files."""
    with tarfile.open(system) as packed:
        status = packed.extractfile(STATUS)
        if status is None:
            raise SystemExit(f"{system} has no file {STATUS}")
        text = status.read().decode()
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": "image",
                "name": "localhost/svcserver",
                "version": version(),
            }
        },
        "components": sorted(debian_packages(text), key=lambda component: component["bom-ref"]),
    }
    path.write_text(json.dumps(document, indent=2) + "\n")


def debian_packages(status: str) -> Iterator[dict[str, str]]:
    """Yield a component for each installed package in dpkg's status file."""
    for paragraph in status.strip().split("\n\n"):
        fields = HeaderParser().parsestr(paragraph)
        if fields["Status"] != "install ok installed":
            continue
        name, number = fields["Package"], fields["Version"]
        where = f"arch={fields['Architecture']}&distro={SUITE}"
        purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(number, safe='')}?{where}"
        if name == "svcserver":  # no Debian archive has this package
            purl = f"pkg:generic/{name}@{number}"
        yield {
            "type": "application" if name == "svcserver" else "library",
            "bom-ref": purl,
            "name": name,
            "version": number,
            "purl": purl,
        }


if __name__ == "__main__":
    main()

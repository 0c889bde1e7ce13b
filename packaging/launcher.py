"""Builds the launcher: a wheel for ``pipx install``, and a single file for several Pythons.

    python packaging/launcher.py [DIST]

Only the packages that the launcher needs are packed. The single file contains the pinned
dependencies, and their compiled parts for this machine and for each of ``PYTHONS`` on Linux and
Windows. Compiled files have the Python version and the system in their names, so they can share a
folder.
"""

import hashlib
import re
import shutil
import sys
import tempfile
import zipfile
from itertools import product
from pathlib import Path

import building
from building import ROOT, copied, target

PACKAGES = ("kernel", "http", "edge", "relay", "launcher")
# of the host's programs
LEFT_OUT = ("relay/service.py", "relay/settings.py", "relay/checking.py", "edge/joining.py")
BUNDLE = "svc-launcher.pyz"
LOCK = ROOT / "requirements" / "launcher.lock"
WINDOWS_LOCK = ROOT / "requirements" / "launcher-windows.lock"  # what the key store there needs
COMPILED = ("cffi", "cryptography", "httptools", "orjson", "zope-interface")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = (
    ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux_2_28_x86_64"),
    ("win_amd64",),
)  # a player's PC, by the names of wheels


def lay_out(source: Path) -> None:
    """Copy all files that are to be packed into ``source``; from a clone, only tracked files."""
    with tempfile.TemporaryDirectory() as folder:
        whole = copied(Path(folder, "whole"))
        package = source / "svcserver"
        package.mkdir(parents=True)
        for name in ("__init__.py", "py.typed"):
            shutil.copy(whole / "svcserver" / name, package)
        for name in PACKAGES:
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(whole / "svcserver" / name, package / name, ignore=ignored)
        for name in LEFT_OUT:
            (package / name).unlink()
        shutil.copy(whole / "LICENSE", source)
        own = whole / "packaging" / "launcher"
        shutil.copy(own / "README.md", source)
        text = (own / "pyproject.toml").read_text()
    line = f'version = "{building.version()}"'
    (source / "pyproject.toml").write_text(re.sub(r'(?m)^version = ".*"$', line, text))


def build_wheel(source: Path, dist: Path) -> Path:
    """Build the wheel in ``dist``."""
    for old in dist.glob("svc_launcher-*.whl"):
        old.unlink()
    run("pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", dist, source)
    [wheel] = dist.glob("svc_launcher-*.whl")
    return wheel


def build_bundle(wheel: Path, dist: Path, work: Path) -> Path:
    """Build the single file in ``dist`` from the pinned dependencies and the wheel."""
    site = work / "site"
    install = ("pip", "install", "-q", "--no-compile", "--target", site)  # shiv packs no bytecode
    run(*install, "--require-hashes", "-r", LOCK)
    run(*install, "--require-hashes", "-r", WINDOWS_LOCK)
    # by name, because pip would record a given wheel's path, which differs by machine
    named = ("--no-index", "--find-links", wheel.parent, "svc-launcher")
    run(*install, "--no-deps", *named)
    remove_programs(site)
    add_compiled(site, work)
    bundle = dist / BUNDLE
    entry = ("-c", "svc-launcher", "-o", bundle)
    run("shiv", "--site-packages", site, *entry, "-p", "/usr/bin/env python3", "--reproducible")
    return bundle


def remove_programs(site: Path) -> None:
    """Remove the packages' scripts, which are unused and contain the path of this Python."""
    shutil.rmtree(site / "bin")
    for record in site.glob("*.dist-info/RECORD"):
        lines = record.read_bytes().splitlines(keepends=True)
        record.write_bytes(b"".join(line for line in lines if not line.startswith(b"../../bin/")))


def add_compiled(site: Path, work: Path) -> None:
    """Add the compiled parts for other Python versions and systems to ``site``."""
    wanted = work / "compiled.lock"
    texts = re.split(r"(?m)^(?=[a-z0-9-]+==)", LOCK.read_text())
    wanted.write_text("".join(text for text in texts if text.partition("==")[0] in COMPILED))
    for number, (python, system) in enumerate(product(PYTHONS, SYSTEMS)):
        wheels = work / f"wheels{number}"
        tags = [word for tag in system for word in ("--platform", tag)]
        which = ("--python-version", python, "--implementation", "cp", *tags)
        only = ("--no-deps", "--only-binary=:all:", "--require-hashes")
        run("pip", "download", "-q", *only, *which, "-d", wheels, "-r", wanted)
        for text in sorted(wheels.glob("*.whl")):
            unpack_compiled(text, site)


def unpack_compiled(wheel: Path, site: Path) -> None:
    """Unpack the compiled libraries of ``wheel``; ``site`` already has the other files."""
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            if name.endswith((".so", ".pyd", ".dll")) and not (site / name).exists():
                packed.extract(name, site)


def run(module: str, *words: object) -> None:
    """Run a Python module as a program; show its output only if it fails."""
    options = ["--disable-pip-version-check"] if module == "pip" else []
    building.run(sys.executable, "-m", module, *words, *options)


def main() -> None:
    """Build both, and print their hashes and paths."""
    dist = target()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        lay_out(work / "source")
        wheel = build_wheel(work / "source", dist)
        bundle = build_bundle(wheel, dist, work)
    for made in (wheel, bundle):
        print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made}")


if __name__ == "__main__":
    main()

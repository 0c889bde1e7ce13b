"""The command ``svcctl content``, which manages the game files and the launcher for download."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from svcserver.content.manifest import BadManifest
from svcserver.content.manifest_builder import (
    BuildFailed,
    HashingProgress,
    Report,
    build_manifest,
    load_manifest,
    verify_manifest,
)
from svcserver.ctl.host import Host, host_command
from svcserver.ctl.launcher_file import BUILT, how, offered_name, put, sign_launchers
from svcserver.ctl.output import Out, fail
from svcserver.edge.joining import LAUNCHER_FILES, launcher_folder

BUILD = "1.4.4"


@click.group()
def content() -> None:
    """Manage the game files and the launcher for download."""


@host_command(content, "manifest")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--build", default=BUILD, help="The game's build number, displayed in the launcher.")
@click.option("--out", "output", type=click.Path(path_type=Path), help="The manifest file.")
def manifest(host: Host, out: Out, folder: Path | None, build: str, output: Path | None) -> None:
    """Hash the files in DIR and write the manifest.

    The default for DIR is the setting CONTENT_GAME_DIR.
    """
    game, target = places(host, folder, output)
    try:
        with progress_bar(out) as report:
            listing = build_manifest(game, build, target, progress=report)
    except BuildFailed as why:
        fail(str(why))
    count, size = len(listing.files), sum(file.size for file in listing.files.values())
    out.data({"manifest": str(target), "build": build, "files": count, "bytes": size})
    out.text(f"{target}: {count} files, {size} bytes; restart svc-content to offer them")


@host_command(content, "verify")
@click.argument("folder", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option("--manifest", "listed", type=click.Path(path_type=Path), help="The manifest file.")
def verify(host: Host, out: Out, folder: Path | None, listed: Path | None) -> None:
    """Compare the files in DIR with the manifest.

    The default for DIR is the setting CONTENT_GAME_DIR.
    """
    game, source = places(host, folder, listed)
    try:
        with progress_bar(out) as report:
            result = verify_manifest(game, load_manifest(source), progress=report)
    except BadManifest as why:
        fail(f"the manifest {source} {why}")
    except BuildFailed as why:
        fail(str(why))
    bad = {"missing": result.missing, "size": result.size, "hash": result.hash}
    out.data({"good": result.good, "ok": len(result.ok), **bad})
    for word, paths in bad.items():
        for path in paths:
            out.text(f"{word:8} {path}")
    if not result.good:
        count = sum(len(paths) for paths in bad.values())
        fail(
            f"{count} files differ from the manifest. Restore the original files, or build a new"
            " manifest."
        )
    out.text(f"{len(result.ok)} files match the manifest")


@host_command(content, "launcher")
@click.argument("file", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
def launcher(host: Host, out: Out, file: Path | None) -> None:
    """Offer the launcher FILE for download.

    Players download the launcher with its checksum. Existing launchers update themselves to this
    file, which is signed with the gateway's key. FILE is svc-launcher-windows.zip
    or svc-launcher.pyz from a release; a host can offer both. In a Git clone, the default is
    all launchers that "make launcher" and "make launcher-windows" have built.
    """
    files = [BUILT / name for name in LAUNCHER_FILES] if file is None else [file]
    present = [path for path in files if path.is_file()]
    if not present:
        fail(f"{files[-1]} does not exist; {how(host.folder)}")
    home = host.need_folder()
    folder = launcher_folder(home)
    if folder is None:
        fail(
            f"CONTENT_LAUNCHER_DIR is not set in {home / 'content.env'}. Set"
            " CONTENT_LAUNCHER_DIR to the folder for launcher files."
        )
    try:
        lines = [f"{put(path, folder)}  {folder / offered_name(path)}" for path in present]
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")
    if fault := sign_launchers(host):
        out.text(f"not signed, so launchers do not update themselves to it: {fault}")
    sha256, path = lines[-1].split("  ", 1)
    out.data({"file": path, "sha256": sha256})
    out.text(*lines, "restart svc-content to offer it")


def places(host: Host, folder: Path | None, manifest: Path | None) -> tuple[Path, Path]:
    """Return the game folder and the manifest, from the command line or the settings."""
    variables = host.variables("content") if folder is None or host.folder is not None else {}
    game = folder or host.path(variables.get("CONTENT_GAME_DIR", ""))
    if folder is None and not variables.get("CONTENT_GAME_DIR"):
        fail("The game's folder is not set. Give the game's folder, or set CONTENT_GAME_DIR.")
    if not game.is_dir():
        fail(f"{game} is not a folder. Give the game's folder.")
    if manifest is not None:
        return game, manifest
    if folder is None and variables.get("CONTENT_MANIFEST"):
        return game, host.path(variables["CONTENT_MANIFEST"])
    return game, game.absolute().parent / "manifest.json"


@contextmanager
def progress_bar(out: Out) -> Iterator[Report | None]:
    """Yield a callback that draws a progress bar; None without a terminal or for ``--json``."""
    if out.as_json or not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label="hashing", file=sys.stderr) as bar:

        def report(done: HashingProgress) -> None:
            bar.length = done.bytes_total
            bar.update(done.bytes_done - bar.pos)

        yield report

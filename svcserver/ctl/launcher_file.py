"""Functions that find the built launcher files and copy them into the host's folder."""

import hashlib
import os
import shutil
from pathlib import Path

import svcserver
from svcserver.ctl.host import Host
from svcserver.ctl.output import Out, config_of
from svcserver.edge.certificate import BadCertificate, read_pair
from svcserver.edge.joining import (
    CHECKSUM_SUFFIX,
    LAUNCHER_FILE,
    LAUNCHER_FILES,
    WINDOWS_FILE,
    launcher_folder,
)
from svcserver.edge.launcher_update import SUFFIX, BadOffer, LauncherOffer, packed_version, sign

BUILT = Path(svcserver.__file__).parents[1] / "dist"
"""The folder of a clone into which ``make launcher`` and ``make launcher-windows`` write."""


def put(file: Path, folder: Path) -> str:
    """Copy a launcher and its checksum into ``folder``; return the checksum. Raises OSError.

    A download in progress gets the complete old file or an error, never parts of two files.
    """
    folder.mkdir(exist_ok=True)
    name = offered_name(file)
    new = folder / f"{name}.new"
    try:
        shutil.copyfile(file, new)
        sha256 = sha256_of(new)
        new.replace(folder / name)
    except OSError:
        new.unlink(missing_ok=True)
        raise
    sums = folder / f"{name}{CHECKSUM_SUFFIX}.new"
    sums.write_text(f"{sha256}  {name}\n", encoding="ascii")
    os.replace(sums, folder / f"{name}{CHECKSUM_SUFFIX}")
    return sha256


def offered_name(file: Path) -> str:
    """Return the file name for download: ``WINDOWS_FILE`` for a zip, else ``LAUNCHER_FILE``."""
    return WINDOWS_FILE if file.suffix == ".zip" else LAUNCHER_FILE


def sign_launchers(host: Host) -> str:
    """Use the gateway's key to sign the launchers that a host offers.

    Returns why a file could not be signed, or an empty string. A launcher updates itself only to a
    signed file. On a host without a gateway, nothing is signed.
    """
    folder = launcher_folder(host.folder) if host.folder is not None else None
    pair, fault = host.gateway_pair(), ""
    if folder is None or pair is None:
        return ""
    for file in (*folder.glob("svc-launcher*.pyz"), *folder.glob("svc-launcher*.zip")):
        signature = file.with_name(file.name + SUFFIX)
        new = signature.with_name(signature.name + ".new")
        try:
            version, size, sha256 = packed_version(file), file.stat().st_size, sha256_of(file)
            new.write_bytes(sign(LauncherOffer(file.name, version, size, sha256), read_pair(*pair)))
            new.replace(signature)
        except BadCertificate as error:
            fault = f"the {error.what} {error}"
        except (BadOffer, OSError) as error:
            fault = str(error)
    return fault


def sha256_of(file: Path) -> str:
    """Return the SHA-256 digest of a file in hexadecimal; raises OSError."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def supply(host: Host, out: Out) -> None:
    """Put the launcher files that were built on this machine into the host's launcher folder.

    A file that the folder already has is not replaced.
    """
    folder = launcher_folder(host.folder) if host.folder is not None else None
    if folder is None:
        return
    built = [BUILT / name for name in LAUNCHER_FILES if not (folder / name).exists()]
    new = [file for file in built if file.is_file()]
    try:
        for file in new:
            put(file, folder)
    except OSError as why:
        out.text(f"the launcher was not put into {folder}: {why.strerror}")
        return
    if new:
        sign_launchers(host)
        out.text(f"the launcher was put into {folder}, for players to download")


def how(folder: Path | None) -> str:
    """Return a text that says how to add a launcher to a host."""
    where = f" {config_of(folder)}" if folder is not None else ""
    have = f"download {WINDOWS_FILE} or {LAUNCHER_FILE} from a release, "
    have += "or run make launcher-windows launcher in a Git clone"
    return f"{have}; then run svcctl content launcher FILE{where}"

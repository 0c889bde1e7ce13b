"""Checks of files: the certificate, programs, game files, and permissions of secret files."""

import ipaddress
import os
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from cryptography import x509

from svcserver.content.manifest import BadManifest, Manifest
from svcserver.content.manifest_builder import OWNERS_NOTE, load_manifest
from svcserver.ctl.blueprint import program
from svcserver.ctl.database import file_of, user_name
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.host import OWNER_KEY
from svcserver.ctl.launcher_file import how, sha256_of
from svcserver.ctl.output import config_of
from svcserver.deploy.executables import cause
from svcserver.edge.certificate import BadCertificate, check_pair, fingerprint, read_pair
from svcserver.edge.joining import launcher_checksum, offered
from svcserver.edge.tls import server_context

OTHERS = stat.S_IRWXG | stat.S_IRWXO
USUAL_PROGRAM = "game.exe"  # the program that launchers start by default
SOME_FILES = 1_000  # manifest entries to check; svcctl content verify checks all


def certificate(case: Case) -> Iterator[Finding]:
    """Check the gateway's certificate and key."""
    if case.gateway is None:
        return
    paths = case.folder / case.gateway.certificate, case.folder / case.gateway.key
    try:
        pair = read_pair(*paths)
        warnings = check_pair(pair, datetime.fromtimestamp(case.machine.wall_clock(), UTC))
        server_context(pair)
    except BadCertificate as why:
        yield Finding.from_message(
            "gateway", f"the {why.what} {why}", "correct GATEWAY_CERT and GATEWAY_KEY"
        )
        return
    for line in warnings:
        yield Finding.from_message(
            "gateway",
            line,
            "prepare a new certificate with svcctl cert make, and later run svcctl cert switch",
        )
    if case.relay is None or not case.relay.host:
        return
    public = case.relay.host
    if not _names(pair.certificate, public):
        yield Finding(
            "gateway",
            f"the certificate does not name {public}, which players connect to",
            f"correct SVC_RELAY_HOST in relay.env; if {public} is right, prepare a new certificate "
            f"with svcctl cert make --host {public}, and later run svcctl cert switch",
        )
    if case.relay.fingerprint and case.relay.fingerprint != fingerprint(pair.certificate):
        yield Finding(
            "relay",
            "SVC_RELAY_FINGERPRINT is not the fingerprint of the gateway's certificate",
            "set it to the output of svcctl cert fingerprint",
        )


def _names(pem: bytes, host: str) -> bool:
    try:
        names = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(
            x509.SubjectAlternativeName
        )
    except x509.ExtensionNotFound:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() in map(str.lower, names.value.get_values_for_type(x509.DNSName))
    return address in names.value.get_values_for_type(x509.IPAddress)


def game_server(case: Case) -> Iterator[Finding]:
    """Check the program that the deploy server starts."""
    if case.deploy is None or not case.deploy.binary or case.deploy.engine == "swarm":
        return  # a swarm's game server is in its image
    path = case.folder / case.deploy.binary
    cure = "put the path of your game server in GAMESERVER_BINARY_PATH of deploy.env"
    if not path.is_file():
        yield Finding("deploy", f"the game server {path} is missing", cure)
    elif not case.deploy.launcher and not may_run(path):
        yield Finding("deploy", f"the game server {path} cannot be run", f"chmod +x {path}")
    elif str(path) == program():
        yield Finding.note(
            "deploy",
            "the game server is the simulator, on which nobody can play",
            cure,
            stops_play=True,
        )
    words = case.deploy.launcher
    if words and not (case.folder / words[0]).is_file() and shutil.which(words[0]) is None:
        what = f"GAMESERVER_LAUNCHER starts with {words[0]}, which is missing"
        yield Finding("deploy", what, "name an existing program, or remove the setting")
    yield from _executes(case, words[0] if words else str(path))


def _executes(case: Case, program: str) -> Iterator[Finding]:
    """Check whether the system can execute the program.

    The program is killed before its first instruction.
    """
    path = program if os.path.isabs(program) else str(case.folder / program)
    if not Path(path).is_file():
        path = shutil.which(program) or ""
    if not path or not may_run(Path(path)):
        return
    error = case.machine.executes(path)
    if error is not None:
        name = "GAMESERVER_LAUNCHER" if case.deploy and case.deploy.launcher else "the game server"
        cure = "correct GAMESERVER_BINARY_PATH or GAMESERVER_LAUNCHER in deploy.env"
        yield Finding.from_message("deploy", f"{name} {cause(path, error)}", cure)


def may_run(path: Path) -> bool:
    """Return whether this user may execute the file."""
    return os.access(path, os.X_OK)


def game_files(case: Case) -> Iterator[Finding]:
    """Check the manifest, and the sizes of the files it lists."""
    if case.content is None:
        return
    folder, listed = case.folder / case.content.game_dir, case.folder / case.content.manifest_file
    make = f"run svcctl content manifest {config_of(case.folder)}"
    changed = f"put the file back, or if you changed the game, {make}"
    try:
        manifest = load_manifest(listed)
    except BadManifest as why:
        cause = why.__context__
        if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError):
            make = "check its owner and its disk"
        yield Finding("content", f"the manifest {listed} {why}", make)
        return
    for path, entry in list(manifest.files.items())[:SOME_FILES]:
        file = folder / path
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            yield Finding("content", f"{file} is in the manifest, but does not exist", changed)
            return
        except OSError as why:
            what = f"{file} cannot be accessed: {why.strerror}"
            yield Finding("content", what, "give its folders to the user of the content server")
            return
        if size != entry.size:
            yield Finding("content", f"{file} does not match the manifest", changed)
            return
    if set(manifest.files) <= {OWNERS_NOTE}:
        what = f"{folder} holds no game yet"
        yield Finding.note(
            "content", what, f"put the game's files there, then {make}", stops_play=True
        )
        return
    yield from _game_program(case.content.game_program, manifest)


def _game_program(named: str, manifest: Manifest) -> Iterator[Finding]:
    """Check the program that the players' launchers start."""
    cure = "set CONTENT_GAME_PROGRAM in content.env to the file that starts the game"
    if named and named not in manifest.files:
        what = f"CONTENT_GAME_PROGRAM is {named}, which is not in the manifest"
        cure += ", as listed in the manifest"
        yield Finding("content", f"{what}: players cannot press Play", cure)
    elif not named and USUAL_PROGRAM not in manifest.files:
        what = f"launchers start {USUAL_PROGRAM}, which is not in the manifest"
        yield Finding.note("content", what, cure)


def launcher(case: Case) -> Iterator[Finding]:
    """Check whether players can download a launcher from this host."""
    if case.content is None:
        return
    page = case.gateway is not None and case.gateway.join_page
    if case.content.launcher_dir is None:
        if page:
            what = "the page /join links to no launcher: CONTENT_LAUNCHER_DIR is not set"
            cure = "set CONTENT_LAUNCHER_DIR in content.env, or switch GATEWAY_JOIN_PAGE off"
            yield Finding.note("content", what, cure)
        return
    where = case.folder / case.content.launcher_dir
    names = offered(case.folder)
    if not names:
        what = f"there is no launcher in {where}"
        what += ", so the page /join links to no launcher" if page else ""
        yield Finding.note("content", what, how(case.folder))
    for name in names:
        file = where / name
        try:
            good = launcher_checksum(case.folder, name) == sha256_of(file)
        except OSError as why:
            fault = f"{file} cannot be read: {why.strerror}"
            yield Finding.note("content", fault, f"chmod 644 {file}")
            continue
        if not good:
            what = f"the checksum beside {file} is missing or wrong"
            cure = "if only you can have changed it, write the file and its checksum again: run "
            cure += f"svcctl content launcher FILE {config_of(case.folder)} with the release's file"
            yield Finding.note("content", f"{what}, so invites do not have it", cure)


def owners(case: Case) -> Iterator[Finding]:
    """Find files that do not belong to the host's user. Such files make backups and starts fail."""
    if os.name != "posix":
        return
    owner = case.folder.stat().st_uid
    top = islice(case.folder.iterdir(), SOME_FILES)
    below = (path for entry in sorted(top) for path in islice(_tree(entry), SOME_FILES))
    others = [path for path in below if _owner_of(path) not in (owner, None)]
    if not others or not owner:  # root can use every file
        return
    name, host = user_name(_owner_of(others[0]) or 0), user_name(owner)
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    what = f"{others[0]}{more} belongs to {name}, but the host belongs to {host}"
    what += ": backups and starts fail"
    yield Finding("host", what, f"chown -R {host} {case.folder}")


def _tree(path: Path) -> Iterator[Path]:
    """Yield a file, or a folder and everything below it."""
    yield path
    if not path.is_symlink():
        for folder, folders, names in os.walk(path):
            yield from (Path(folder, name) for name in sorted((*folders, *names)))


def _owner_of(path: Path) -> int | None:
    """Return the owner's user id; None for a symbolic link or a file that was just removed."""
    try:
        status = path.lstat()
    except OSError:
        return None
    return None if stat.S_ISLNK(status.st_mode) else status.st_uid


def private_files(case: Case) -> Iterator[Finding]:
    """Find files with secrets that other users of the machine can read."""
    if os.name != "posix":
        return
    for path in sorted(_private(case)):
        try:
            mode = stat.S_IMODE(path.stat().st_mode)
        except OSError:
            continue
        if mode & OTHERS:
            what = f"{path} can be read by others (mode {mode:04o})"
            yield Finding("host", what, f"chmod 600 {path}")


def _private(case: Case) -> set[Path]:
    paths = {case.file(name) for name in case.variables} | {case.folder / OWNER_KEY}
    if case.gateway is not None:
        paths.add(case.folder / case.gateway.key)
    if case.metagame is not None:
        database = file_of(case.metagame.database_url)
        if database is not None:
            paths.add(case.folder / database)
    return paths

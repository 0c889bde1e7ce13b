"""The faults of ``svcctl rehearse``: each is brought about for real, seen, and cured."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from svcserver.ctl.envfile import change
from svcserver.ctl.host_creation import DATABASE
from svcserver.ctl.output import fail
from svcserver.ctl.rehearse.host import Seen, ThrowAway
from svcserver.ctl.rehearse.telling import Telling
from svcserver.edge.certificate import KEY_FILE, make_pair, write_pair
from svcserver.kernel.settings import parse_env_file

MB = 1 << 20
SLACK = 256 * MB  # what other programs may write meanwhile without being noticed
BALLAST = 2 * SLACK
YEARS = 10  # that a certificate is good for


def healthy(host: ThrowAway, told: Telling, title: str) -> None:
    """The first step of a rehearsal: the host runs, and a player's save is kept."""
    told.step(title)
    host.start()
    host.player.come("Ada")
    served(host, told)


def started_broken(host: ThrowAway, told: Telling) -> Seen:
    """Start the host with its fault; what is to be seen then."""
    host.start(broken=True)
    broken = host.seen()
    told.seen(broken)
    return broken


def served(host: ThrowAway, told: Telling) -> Seen:
    """Wait until a save is kept; what is to be seen then."""
    found = host.eventually(saved=True)
    told.seen(found)
    return found


def invited_anew(host: ThrowAway, told: Telling, title: str) -> Seen:
    """Start the host with its new certificate, and invite by it; what is to be seen then."""
    host.start()
    told.seen(host.seen())
    told.step(title)
    told.command(*host.svcctl("invite", "create"))
    host.player.pinned = host.shown_fingerprint()
    return served(host, told)


def full_disk(host: ThrowAway, told: Telling) -> bool:
    """The disk comes to have less room than DISK_RESERVE_MB; players read on and save nothing."""
    free = shutil.disk_usage(host.folder).free
    if free < 2 * BALLAST:
        fail(
            f"the disk of {host.folder} has {free // MB} MB; a rehearsal wants {2 * BALLAST // MB}"
        )
    reserve = (free - SLACK) // MB
    change(host.folder / "metagame.env", {"DISK_RESERVE_MB": str(reserve)})
    healthy(
        host, told, f"A healthy host, which keeps {reserve} MB of its disk free (DISK_RESERVE_MB)"
    )
    told.step(f"A file of {BALLAST // MB} MB fills the disk beyond that")
    ballast = host.folder / "ballast"
    fill(ballast, BALLAST)
    broken = host.eventually(saved=False)
    told.seen(broken)
    told.step("The cure: make room; nothing has to be started again")
    told.command(f"rm {ballast}", "")
    ballast.unlink()
    cured = served(host, told)
    return not broken.saved and cured.healthy


def lost_database(host: ThrowAway, told: Telling) -> bool:
    """The file of the database is gone at a start; a backup is put back."""
    told.step("A healthy host; its owner makes a backup")
    host.start()
    host.player.come("Ada")
    host.player.save()
    backup = host.folder.parent / "backup.db"
    told.command(*host.svcctl("db", "backup", str(backup)))
    served(host, told)
    told.step("The host stops, its database is lost, and it is started again")
    host.stop()
    for file in host.folder.glob(f"{DATABASE}*"):
        file.unlink()
    told.command(*host.svcctl("doctor"))
    broken = started_broken(host, told)
    told.step("The cure: stop the host, put the backup back, start it")
    host.stop()
    told.command(*host.svcctl("db", "restore", str(backup)))
    host.start()
    host.player.log_in()  # also reads what the backup holds
    cured = served(host, told)
    told.out.say("   What was saved after the backup is lost: make one every day.")
    return not broken.saved and cured.healthy


def bad_certificate(host: ThrowAway, told: Telling) -> bool:
    """The gateway's key is not that of its certificate; a new pair is made, and new invites."""
    healthy(host, told, "A healthy host")
    told.step("The key is replaced by another one, and the host is started again")
    host.stop()
    (host.folder / KEY_FILE).write_bytes(make_pair(["127.0.0.1"]).key)
    broken = started_broken(host, told)
    told.step("The cure, where no copy of the key is left: a new certificate and its key")
    host.stop()
    told.command(*host.svcctl("cert", "make", "--force", "--host", "127.0.0.1"))
    relay = host.folder / "relay.env"
    fingerprint = host.shown_fingerprint()
    change(relay, {"SVC_RELAY_FINGERPRINT": fingerprint})
    told.command(f"edit {relay}", f"SVC_RELAY_FINGERPRINT={fingerprint}")
    cured = invited_anew(
        host, told, "Every player needs a new invite, since the old ones name the old certificate"
    )
    return not broken.saved and cured.healthy


def expired_certificate(host: ThrowAway, told: Telling) -> bool:
    """The gateway's certificate has run out; the next one is made and takes its place."""
    healthy(host, told, "A healthy host, whose certificate nobody has looked at for ten years")
    host.stop()
    then = datetime.now(UTC) - timedelta(days=366 * (YEARS + 1))
    write_pair(make_pair(["127.0.0.1"], now=then, years=YEARS), host.folder, force=True)
    told.step("The machine is started anew after the certificate's last day")
    broken = started_broken(host, told)
    told.step("The cure: make the next certificate, and put it in its place")
    host.stop()
    change(host.folder / "relay.env", {"SVC_RELAY_FINGERPRINT": host.shown_fingerprint()})
    told.command(*host.svcctl("cert", "make", "--host", "127.0.0.1"))
    told.command(*host.svcctl("cert", "switch"))
    cured = invited_anew(
        host, told, "Every player needs a new invite; made in time, it names both certificates"
    )
    told.out.say("   svcctl doctor warns a month before: make the next one then, and switch later.")
    return not broken.saved and cured.healthy


def lost_signing_key(host: ThrowAway, told: Telling) -> bool:
    """The key that signs log-ins is cut off in metagame.env; a new one takes its place."""
    healthy(host, told, "A healthy host")
    told.step("A line of metagame.env is cut off in an editor, and the host is started again")
    host.stop()
    settings, name = host.folder / "metagame.env", "AUTH_SIGNING_PRIVKEY_B64"
    change(settings, {name: parse_env_file(settings.read_text())[name][:64]})
    host.start(broken=True)
    host.player.token = ""  # who comes now has to log in
    broken = host.seen()
    told.seen(broken)
    told.step("The cure: a new key signs from now on; nobody who is logged in notices")
    host.stop()
    told.command(*host.svcctl("keys", "rotate"))
    host.start()
    host.player.log_in()
    cured = served(host, told)
    return not broken.saved and cured.healthy


def port_taken(host: ThrowAway, told: Telling) -> bool:
    """Another program holds the gateway's port when the host starts."""
    healthy(host, told, "A healthy host")
    told.step("Another program takes the gateway's port while the host is stopped for an update")
    host.stop()
    with closing(socket.create_server(("127.0.0.1", host.ports.gateway))):
        host.start(broken=True)
        broken = host.seen()
        told.seen(broken)
        told.step("The cure: end the other program, or give the gateway another port")
        told.command(f"ss -ltnp 'sport = :{host.ports.gateway}'", "which names the program")
        host.stop()
    host.start()
    cured = served(host, told)
    told.out.say("   Another port (GATEWAY_PORT) also wants new invites, which name it.")
    return not broken.saved and cured.healthy


def fill(path: Path, size: int) -> None:
    """Write a file that takes ``size`` bytes of the disk."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.posix_fallocate(handle, 0, size)
    finally:
        os.close(handle)


FAULTS: Mapping[str, Callable[[ThrowAway, Telling], bool]] = {
    "full-disk": full_disk,
    "lost-database": lost_database,
    "bad-certificate": bad_certificate,
    "expired-certificate": expired_certificate,
    "lost-signing-key": lost_signing_key,
    "port-taken": port_taken,
}

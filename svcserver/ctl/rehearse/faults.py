"""The faults of ``svcctl rehearse``: each is brought about for real, seen, and cured."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

from svcserver.ctl.envfile import change
from svcserver.ctl.host_creation import DATABASE
from svcserver.ctl.output import fail
from svcserver.ctl.rehearse.host import ThrowAway
from svcserver.ctl.rehearse.telling import Telling
from svcserver.edge.certificate import KEY_FILE, make_pair

MB = 1 << 20
SLACK = 256 * MB  # what other programs may write meanwhile without being noticed
BALLAST = 2 * SLACK


def full_disk(host: ThrowAway, told: Telling) -> bool:
    """The disk comes to have less room than DISK_RESERVE_MB; players read on and save nothing."""
    free = shutil.disk_usage(host.folder).free
    if free < 2 * BALLAST:
        fail(
            f"the disk of {host.folder} has {free // MB} MB; a rehearsal wants {2 * BALLAST // MB}"
        )
    reserve = (free - SLACK) // MB
    change(host.folder / "metagame.env", {"DISK_RESERVE_MB": str(reserve)})
    told.step(f"A healthy host, which keeps {reserve} MB of its disk free (DISK_RESERVE_MB)")
    host.start()
    host.player.come("Ada")
    told.seen(host.eventually(saved=True))
    told.step(f"A file of {BALLAST // MB} MB fills the disk beyond that")
    ballast = host.folder / "ballast"
    fill(ballast, BALLAST)
    broken = host.eventually(saved=False)
    told.seen(broken)
    told.step("The cure: make room; nothing has to be started again")
    told.command(f"rm {ballast}", "")
    ballast.unlink()
    cured = host.eventually(saved=True)
    told.seen(cured)
    return not broken.saved and cured.healthy


def lost_database(host: ThrowAway, told: Telling) -> bool:
    """The file of the database is gone at a start; a backup is put back."""
    told.step("A healthy host; its owner makes a backup")
    host.start()
    host.player.come("Ada")
    host.player.save()
    backup = host.folder.parent / "backup.db"
    told.command(*host.svcctl("db", "backup", str(backup)))
    told.seen(host.eventually(saved=True))
    told.step("The host stops, its database is lost, and it is started again")
    host.stop()
    for file in host.folder.glob(f"{DATABASE}*"):
        file.unlink()
    told.command(*host.svcctl("doctor"))
    host.start(broken=True)
    broken = host.seen()
    told.seen(broken)
    told.step("The cure: stop the host, put the backup back, start it")
    host.stop()
    told.command(*host.svcctl("db", "restore", str(backup)))
    host.start()
    host.player.log_in()  # also reads what the backup holds
    cured = host.eventually(saved=True)
    told.seen(cured)
    told.out.say("   What was saved after the backup is lost: make one every day.")
    return not broken.saved and cured.healthy


def bad_certificate(host: ThrowAway, told: Telling) -> bool:
    """The gateway's key is not that of its certificate; a new pair is made, and new invites."""
    told.step("A healthy host")
    host.start()
    host.player.come("Ada")
    told.seen(host.eventually(saved=True))
    told.step("The key is replaced by another one, and the host is started again")
    host.stop()
    (host.folder / KEY_FILE).write_bytes(make_pair(["127.0.0.1"]).key)
    host.start(broken=True)
    broken = host.seen()
    told.seen(broken)
    told.step("The cure, where no copy of the key is left: a new certificate and its key")
    host.stop()
    told.command(*host.svcctl("cert", "make", "--force", "--host", "127.0.0.1"))
    relay = host.folder / "relay.env"
    now = host.shown_fingerprint()
    change(relay, {"SVC_RELAY_FINGERPRINT": now})
    told.command(f"edit {relay}", f"SVC_RELAY_FINGERPRINT={now}")
    host.start()
    told.seen(host.seen())
    told.step("Every player needs a new invite, since the old ones name the old certificate")
    told.command(*host.svcctl("invite", "create"))
    host.player.pinned = now
    cured = host.eventually(saved=True)
    told.seen(cured)
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
}

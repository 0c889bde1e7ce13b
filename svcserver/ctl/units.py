"""The systemd units for a host's services, each with the least rights it needs.

``svcctl init`` writes these files into ``host/`` of the new folder. ``docs/host`` has the files
for a host in ``/srv/game``, written by ``python -m svcserver.ctl.units docs/host``.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from attrs import Factory, field, frozen

USER = "svc"
TARGET = "svcserver.target"
WATCH, BACKUP, NIGHT = "svc-watch.service", "svc-backup.service", "svc-backup.timer"
KEEPERS = (WATCH, BACKUP, NIGHT)
LONGEST_BACKUP = "4h"
OPEN_FILES = 65_536
HOMES = ("/home", "/root", "/run/user")
STOP_S = 30


@frozen
class UnitPaths:
    """The absolute paths of the host's folder, of the installed program and of its interpreter.

    Services run and write in ``data``: the host's folder, or the folder given with ``svcctl init
    --data``.
    """

    folder: Path = Path("/srv/game")
    program: Path = Path("/opt/svcserver/.venv/bin/twistd")
    python: Path = Path("/usr/bin/python3")
    data: Path = field(default=Factory(lambda place: place.folder, takes_self=True))

    @property
    def written(self) -> str:
        """Return the folders that the services can write to."""
        return " ".join(dict.fromkeys((_word(self.folder), _word(self.data))))

    @property
    def at_home(self) -> bool:
        """Return whether the services must read files below a home folder."""
        needed = (self.folder, self.data, self.program, self.python)
        return any(path.is_relative_to(home) for home in HOMES for path in needed)


@frozen
class Service:
    """The parts of a component's systemd unit that are not the same for all components."""

    meaning: str
    after: tuple[str, ...] = ()
    capability: str = ""
    families: str = "AF_UNIX AF_INET AF_INET6"
    confined: bool = True  # False if the service starts programs of the owner
    end: str = "KillMode=mixed"


SERVICES = {
    "metagame": Service("the game's main backend and its chat", ("postgresql",)),
    "deploy": Service(
        "starts and watches game servers",
        ("metagame",),
        confined=False,
        # game servers keep running when the service ends; the next start takes them over
        end="KillMode=process\nRestartKillSignal=SIGHUP",
    ),
    "content": Service("offers verified game files for download", ("metagame",)),
    "allowlist": Service(
        "opens the game ports for players",
        capability="CAP_NET_ADMIN",
        families="AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    ),
    "gateway": Service(
        "the public HTTPS entry",
        ("metagame", "content", "allowlist"),
        capability="CAP_NET_BIND_SERVICE",
    ),
}


def files(place: UnitPaths, names: Iterable[str] = SERVICES) -> dict[str, str]:
    """Return a mapping from file name to content: the target, all units and the logrotate file."""
    chosen = [name for name in SERVICES if name in set(names)]
    texts = {TARGET: _target(chosen), "svcserver.logrotate": _logrotate(place)}
    texts |= {f"{unit(name)}": _unit(name, SERVICES[name], place) for name in chosen}
    return texts | {WATCH: _watch(chosen, place), BACKUP: _backup(place), NIGHT: _night()}


def unit(name: str) -> str:
    """Return the file name of the unit that runs a component."""
    return f"svc-{name}.service"


def _target(names: Iterable[str]) -> str:
    return f"""\
# The whole host: systemctl enable --now {TARGET}
[Unit]
Description=svcserver: every service of this host
Wants={" ".join([*map(unit, names), WATCH, NIGHT])}

[Install]
WantedBy=multi-user.target
"""


def _unit(name: str, service: Service, place: UnitPaths) -> str:
    return _daemon(name, service, place, f"--env-file {_argument(place.folder / f'{name}.env')}")


def _watch(names: Iterable[str], place: UnitPaths) -> str:
    """Return the unit that sends alerts on a host without svc-stack."""
    service = Service("sends alerts to the owner", tuple(names))
    return _daemon("watch", service, place, f"--config {_argument(place.folder)}")


def _daemon(name: str, service: Service, place: UnitPaths, options: str) -> str:
    return f"""\
{_head(name, service)}
[Service]
Type=exec
User={USER}
Group={USER}
WorkingDirectory={_literal(place.data)}
ExecStart={_word(place.program)} --nodaemon --pidfile= svc-{name} {options}
Restart=always
RestartSec=2
TimeoutStopSec={STOP_S}
{service.end}
LimitNOFILE={OPEN_FILES}
UMask=0077
{_hardening(service, place)}
[Install]
WantedBy={TARGET}
"""


def _head(name: str, service: Service) -> str:
    after = " ".join(["network-online.target", *map(_after, service.after)])
    return f"""\
# svc-{name}: {service.meaning}. Written by svcctl init; change it with systemctl edit.
[Unit]
Description=svcserver: {service.meaning}
PartOf={TARGET}
Wants=network-online.target
After={after}
"""


def _backup(place: UnitPaths) -> str:
    """Return the unit of the nightly backup, which a timer starts."""
    service = Service("makes and tests a backup", ("metagame",), confined=False)
    svcctl = _word(place.program.with_name("svcctl"))
    return f"""\
{_head("backup", service)}
[Service]
Type=oneshot
User={USER}
Group={USER}
WorkingDirectory={_literal(place.data)}
ExecStart={svcctl} backup nightly --config {_argument(place.folder)}
TimeoutStartSec={LONGEST_BACKUP}
IOSchedulingClass=idle
UMask=0077
{_hardening(service, place)}"""


def _night() -> str:
    return f"""\
# Starts svc-backup at this local time; to change the time: systemctl edit {NIGHT}
[Unit]
Description=svcserver: the nightly backup
PartOf={TARGET}

[Timer]
OnCalendar=*-*-* 04:00:00
Persistent=yes

[Install]
WantedBy={TARGET}
"""


def _after(name: str) -> str:
    return unit(name) if name in SERVICES else f"{name}.service"


def _hardening(service: Service, place: UnitPaths) -> str:
    lines = [
        f"AmbientCapabilities={service.capability}",
        f"CapabilityBoundingSet={service.capability}",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        f"ProtectHome={'read-only' if place.at_home else 'yes'}",
        f"ReadWritePaths={place.written}",
        "PrivateTmp=yes",
        "PrivateDevices=yes",
        "ProtectClock=yes",
        "ProtectControlGroups=yes",
        "ProtectHostname=yes",
        "ProtectKernelLogs=yes",
        "ProtectKernelModules=yes",
        "ProtectKernelTunables=yes",
        "ProtectProc=invisible",
        "LockPersonality=yes",
        "RemoveIPC=yes",
        "RestrictRealtime=yes",
        "RestrictSUIDSGID=yes",
    ]
    if service.confined:
        lines += [
            f"RestrictAddressFamilies={service.families}",
            "RestrictNamespaces=yes",
            "SystemCallArchitectures=native",
            "SystemCallFilter=@system-service",
            "SystemCallFilter=~@privileged @resources",
            "SystemCallErrorNumber=EPERM",
        ]
    else:
        lines.append(
            "# less restricted than other units, because your game servers may need more rights"
        )
    return "\n".join(lines) + "\n"


def _logrotate(place: UnitPaths) -> str:
    return f"""\
# Only for a host whose output is appended to a file when it is started (>> stack.log); under
# systemd the journal keeps the logs. Copy to /etc/logrotate.d/svcserver
{_quoted(place.data / "stack.log")} {_quoted(place.data / "bodies.log")} {{
    su {USER} {USER}
    weekly
    rotate 8
    compress
    missingok
    notifempty
    copytruncate
}}
"""


def _quoted(path: Path | str) -> str:
    """Quote a word for systemd and logrotate if necessary."""
    text = str(path)
    if re.search(r"""[\s"'\\;#]""", text) is None:
        return text
    escaped = re.sub(r'(["\\])', r"\\\1", text)
    return f'"{escaped}"'


def _literal(path: Path) -> str:
    """Escape each ``%`` of a path for systemd."""
    return str(path).replace("%", "%%")


def _word(path: Path) -> str:
    """Return the path, escaped and quoted as a single word of a systemd unit file."""
    return _quoted(_literal(path))


def _argument(path: Path) -> str:
    """Return a path as one word of a unit file's command line, with each ``$`` escaped."""
    return _word(path).replace("$", "$$")


def write(folder: Path) -> None:
    """Write the units of the example host, as in docs/host, into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files(UnitPaths()).items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))

"""Checks of the machine: ports, disk space, open files, memory and firewall."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from attrs import frozen

from svcserver.allowlist.firewall import NoFirewall, choose
from svcserver.allowlist.programs import Programs
from svcserver.ctl.doctor.case import Case, Finding
from svcserver.ctl.doctor.machine import PortState
from svcserver.edge.certificate import BadCertificate, fingerprint
from svcserver.kernel import json
from svcserver.kernel.descriptors import ENOUGH
from svcserver.kernel.port_holders import PortHolder

MB = 1024 * 1024
LEAST_DISK = 512 * MB
LOW_DISK = 0.05  # share of the disk's size
FILES_A_PLAYER = 2  # the gateway has two sockets for each connection
OWN_FILES = 128


@frozen
class ListenAddress:
    """An address that a component listens on; ``is_it`` tests whether the component replies."""

    component: str
    variable: str
    host: str
    port: int
    is_it: Callable[[str], bool]  # called with the address to connect to

    @property
    def setting(self) -> str:
        return f"{self.variable} {self.port}"


def ports(case: Case) -> Iterator[Finding]:
    """Find ports that two components share, or that another program uses."""
    first: dict[int, ListenAddress] = {}
    for place in _places(case):
        if place.port in first:
            earlier = first[place.port]
            what = f"{place.setting} is also {earlier.variable} of the {earlier.component}"
            yield Finding(place.component, what, "give each a different port")
            continue
        first[place.port] = place
        state = case.machine.port(place.host, place.port)
        if state != PortState():
            yield from _blocked(case, place, state)
    yield from _game_ports(case)


def _blocked(case: Case, place: ListenAddress, state: PortState) -> Iterator[Finding]:
    """Find why a component cannot listen on its port.

    There is no finding if the component itself already listens on the port.
    """
    program = "metagame" if place.component == "chat" else place.component
    holder = case.machine.holder(place.host, place.port, program) if state.taken else None
    settings = holder.settings_of(program) if holder is not None else None
    change = f"or change {place.variable} to {_free_port(case, place)} in all settings"
    if holder is not None and settings is not None and not _same(settings, case.file(program)):
        what = f"{place.setting} is used by the {place.component} of the host in {settings.parent}"
        cure = f"stop that host, {change} of one of the two hosts"
        yield Finding(place.component, f"{what} (process {holder.pid})", cure)
    elif place.is_it(_reachable(place.host)):
        return
    elif holder is not None and settings is not None:
        what = f"the {place.component} listens on {place.setting} (process {holder.pid}), "
        what += "but does not answer"
        yield Finding(place.component, what, "see its log, then restart it")
    elif state.denied:
        cure = 'start it by the systemd unit (CAP_NET_BIND_SERVICE), or see the page "Firewall"'
        what = f"this user may not listen on port {place.port}"
        yield Finding.note(place.component, what, cure)
    elif state.taken:
        what = f"{place.setting} is used by a program that is not the {place.component}"
        yield Finding(place.component, what, f"{_ended(holder, place.port, 'lt')}, {change}")


def _free_port(case: Case, place: ListenAddress) -> int:
    """Return the next port that neither this host nor another program uses."""
    used = {listening.port for listening in _places(case)}
    port = place.port
    while port in used or case.machine.port(place.host, port) != PortState():
        port = max(1_024, (port + 1) % 65_536)
    return port


def _same(left: Path, right: Path) -> bool:
    return os.path.realpath(left) == os.path.realpath(right)


def _ended(holder: PortHolder | None, port: int, kind: str) -> str:
    """Return instructions for ending the program that uses a port."""
    if holder is None:
        return f"stop that program (find it with ss -{kind}np 'sport = :{port}')"
    return f"stop that program (process {holder.pid}, {holder.words[0]})"


def _game_ports(case: Case) -> Iterator[Finding]:
    deploy = case.deploy
    if deploy is None or not deploy.has_ports or case.machine.port("127.0.0.1", deploy.port).taken:
        return  # the ports are used by the host's own game servers
    for port in range(deploy.first_port, deploy.last_port + 1):
        if not case.machine.port("0.0.0.0", port, udp=True).taken:  # noqa: S104 - for games
            continue
        holder = case.machine.holder("0.0.0.0", port, udp=True)  # noqa: S104
        if (
            holder is not None
            and deploy.binary
            and str(case.folder / deploy.binary) in holder.words
        ):
            what = f"a game server still runs on UDP port {port} (process {holder.pid})"
            cure = "start the deploy server, which takes this game server over; "
            cure += "if the game server belongs to another host, "
            yield Finding("deploy", what, f"{cure}change PORT_RANGE_BEGIN")
        else:
            cure = f"{_ended(holder, port, 'lu')}, or change PORT_RANGE_BEGIN"
            yield Finding("deploy", f"UDP port {port} for game servers is taken", cure)
        return


def _places(case: Case) -> Iterator[ListenAddress]:
    def speaks(port: int, path: str, word: str) -> Callable[[str], bool]:
        return lambda host: _says(case, host, port, path, word)

    if case.metagame is not None:
        port = case.metagame.port
        it = speaks(port, "/svc/api/ServerStatus", "playersOnline")
        yield ListenAddress("metagame", "PORT", case.metagame.bind_host, port, it)
        if case.metagame.chat and case.chat is not None:
            chat = case.chat
            yield ListenAddress(
                "chat", "CHAT_PORT", chat.host, chat.port, lambda h: _chats(case, h)
            )
    if case.deploy is not None:
        it = speaks(case.deploy.port, "/gameservers", "servers")
        yield ListenAddress("deploy", "PORT", case.deploy.bind_host, case.deploy.port, it)
    if case.content is not None:
        it = speaks(case.content.port, "/content/v1/manifest", "files")
        yield ListenAddress("content", "PORT", case.content.bind_hosts[0], case.content.port, it)
    if case.allowlist is not None:
        it = speaks(case.allowlist.port, "/status", "entries")
        yield ListenAddress(
            "allowlist", "ALLOWLIST_PORT", case.allowlist.bind_host, case.allowlist.port, it
        )
    if case.gateway is not None:
        gateway = case.gateway
        yield ListenAddress(
            "gateway", "GATEWAY_PORT", gateway.bind, gateway.port, lambda h: _ours(case, h)
        )
    yield from _figures(case)


def _figures(case: Case) -> Iterator[ListenAddress]:
    """Yield the METRICS_PORT setting of each component."""
    parts = {
        "metagame": case.metagame,
        "deploy": case.deploy,
        "content": case.content,
        "allowlist": case.allowlist,
        "gateway": case.gateway,
    }
    for name, part in parts.items():
        port = part.metrics_port if part is not None else None
        if port is not None:
            yield ListenAddress(
                name, "METRICS_PORT", "127.0.0.1", port, partial(_counts, case, name, port)
            )


def _counts(case: Case, name: str, port: int, host: str) -> bool:
    status, body = case.machine.answer(host, port, "/metrics", {})
    return status == 200 and f"svc_{name}_".encode() in body


def _says(case: Case, host: str, port: int, path: str, word: str) -> bool:
    secret = case.allowlist.secret.reveal() if case.allowlist and path == "/status" else None
    headers = {"x-allowlist-secret": secret} if secret else {}
    status, body = case.machine.answer(host, port, path, headers)
    try:
        reply = json.parse(body)
    except json.BadJson:
        return False
    return status == 200 and isinstance(reply, dict) and word in reply


def _helps(case: Case, host: str) -> bool:
    """Return whether the allowlist helper runs; a running helper can change the firewall."""
    return case.allowlist is not None and _says(
        case, host, case.allowlist.port, "/status", "entries"
    )


def _chats(case: Case, host: str) -> bool:
    """Return whether the chat listens: its WebSocket server answers a plain request with 4xx."""
    if case.chat is None:
        return False
    status, _ = case.machine.answer(host, case.chat.port, "/", {})
    return 400 <= status < 500


def _ours(case: Case, host: str) -> bool:
    if case.gateway is None:
        return False
    try:
        pinned = fingerprint((case.folder / case.gateway.certificate).read_bytes())
    except (OSError, BadCertificate):
        return False
    return case.machine.presented(host, case.gateway.port) == pinned


def _reachable(host: str) -> str:
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared only


def room(case: Case) -> Iterator[Finding]:
    """Check disk space, the limit on open files, and memory."""
    space = case.machine.room(case.folder)
    what = f"the disk of {case.folder} has {space.free // MB} MB left"
    reserve = case.metagame.disk_reserve_mb * MB if case.metagame is not None else 0
    if space.free < max(LEAST_DISK, reserve):
        yield Finding("host", f"{what}: saving will soon fail", "make room")
    elif space.free < LOW_DISK * space.total:
        yield Finding.note("host", what, "make room before it is full")
    yield from _open_files(case)
    yield from _memory(case)


def _open_files(case: Case) -> Iterator[Finding]:
    if case.gateway is None:
        return
    limits = case.machine.open_files()
    wanted = FILES_A_PLAYER * case.gateway.max_connections + OWN_FILES
    most = max(limits.soft, min(limits.hard, ENOUGH))  # each service raises its own limit
    if most < wanted:
        what = f"a process may open {most} files, but GATEWAY_MAX_CONNECTIONS needs {wanted}"
        cure = f"LimitNOFILE={wanted} in the systemd unit, or ulimit -n {wanted} before the start"
        yield Finding("gateway", what, cure)


def _memory(case: Case) -> Iterator[Finding]:
    total, deploy = case.machine.memory(), case.deploy
    if total is None or deploy is None or not deploy.memory_guard:
        return
    figures = deploy.min_free_mb, deploy.startup_mb
    if all(text.isdigit() for text in figures) and sum(map(int, figures)) * MB > total:
        yield Finding.note(
            "deploy",
            f"the machine has {total // MB} MB of memory: the memory guard blocks all game servers",
            "lower GAMESERVER_MIN_FREE_MB and GAMESERVER_STARTUP_MB, or add memory",
            stops_play=True,
        )


def firewall(case: Case) -> Iterator[Finding]:
    """Check that the allowlist helper can change the firewall."""
    helper = case.allowlist
    if helper is None:
        return
    try:
        choose(helper.backend, helper.paths, helper.nft_set, Programs(None), dry_run=helper.dry_run)
    except NoFirewall as why:
        yield Finding.from_message("allowlist", str(why), "install nftables")
        return
    if helper.dry_run:
        what = "ALLOWLIST_DRY_RUN is 1: no port is opened or closed"
        yield Finding.note("allowlist", what, "set it to 0 when the helper may change the firewall")
    elif helper.backend == "none":
        what = "ALLOWLIST_BACKEND is none: no port is opened or closed"
        yield Finding("allowlist", what, "set ALLOWLIST_BACKEND=auto in allowlist.env")
    elif not case.machine.may_change_firewall() and not _helps(case, helper.bind_host):
        cure = "start it by the systemd unit, or as root"
        yield Finding.note(
            "allowlist", "you may not change the firewall, but the helper must", cure
        )

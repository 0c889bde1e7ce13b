"""The launcher's core: all hosts that the player has joined, and the game's relay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import define, evolve, field
from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList, maybeDeferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from svcserver.edge import invite as invites
from svcserver.edge.upstream import Pool, plain
from svcserver.kernel.every import Every
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.host_client import HostClient
from svcserver.launcher.host_list import HostList, HostRecord, TooManyHosts, id_of, joined
from svcserver.launcher.key_files import BadKeyFile, KeyFile, read_key_file, write_key_file
from svcserver.launcher.keystore import KeyStore
from svcserver.launcher.membership import CannotPlay, Membership, invite_name, new_key_name, way_to
from svcserver.launcher.runners import Runner
from svcserver.launcher.stages import BUSY, Stage
from svcserver.relay.relaying import DEFAULT_PORT, PortBusy, RelayService, Target, make_pool

log = Logger()

REFRESH_S = 15.0
SECOND_HOST = "127.0.0.2"  # the relay's address if 127.0.0.1 is in use
InThread = Callable[..., Deferred[Any]]


class CannotJoin(Exception):
    """The error for an invite or key that cannot be used; its text is for the player."""


class OtherKey(CannotJoin):
    """The error when an imported key would replace a different key."""


@define(eq=False, slots=False)
class Launcher(Service):
    """The launcher's state and actions, which the page and the terminal share."""

    clock: Any  # the reactor
    keys: KeyStore
    hosts: HostList
    games: Path
    relay_port: int = DEFAULT_PORT
    runner: Runner | None = None
    _threads: InThread | None = None
    members: dict[str, Membership] = field(factory=dict, init=False)
    downloading: set[str] = field(factory=set, init=False)  # canonical folder names (``one_name``)
    invited: str = field(default="", init=False)  # the host of the last opened invite
    opened: int = field(default=0, init=False)  # number of invites that were opened
    refusal: str = field(default="", init=False)  # why the last invite, or its name, was not used
    _relay: RelayService | None = field(default=None, init=False)
    _playing: str = field(default="", init=False)
    _pools: list[Pool] = field(factory=list, init=False)
    _timers: list[Every] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        for record in self.hosts:
            self.members[record.id] = Membership(self, record)
        self._timers = [
            Every(self.clock, REFRESH_S, self._refresh, "polling the hosts", at_once=True),
            Every(self.clock, 1, self._sweep, "closing idle connections"),
        ]

    def startService(self) -> None:
        Service.startService(self)
        for timer in self._timers:
            timer.startService()
        for member in self.members.values():
            member.inputs.check(False)

    def stopService(self) -> Any:
        """Stop the relay, all other work and the game; the result fires when the game has ended."""
        Service.stopService(self)
        for timer in self._timers:
            timer.stopService()
        ends = [member.game.stop() for member in self.members.values()]
        for member in self.members.values():
            member.leave()
        return DeferredList([*ends, maybeDeferred(self._close_way)])

    @property
    def busy(self) -> bool:
        """True while any work for a host is in progress, such as a game or a download."""
        return any(member.host.stage in BUSY for member in self.members.values())

    @property
    def in_game(self) -> bool:
        """True while a game starts, runs, or has been told to stop but has not ended."""
        playing = (Stage.STARTING, Stage.PLAYING)
        return any(
            member.host.stage in playing or member.game.running for member in self.members.values()
        )

    # -- joining and leaving ---------------------------------------------------

    def join(self, text: str) -> Membership:
        """Open an invite, or raise CannotJoin.

        Any web page can open an invite. So if the player has an account on the host, an invite with
        a new certificate changes nothing until the player trusts the certificate. Opening an invite
        stops the host's download, unless the invite contains nothing new.
        """
        try:
            invite = invites.decode(text)
            old = self.hosts.get(id_of(invite))
            record = joined(invite, old)
            member = self.members.get(record.id)
            if member is not None and not member.is_joining and member.record == record:
                self._show_host(record)
            elif old is None or not old.username or old.trusts(record):
                member = self._membership(record, code=invite.code)
            else:
                member = self._membership(evolve(record, username=""), before=old)
            if record.name != invite.name:
                self.refusal = words.NAME_KEPT.format(name=record.name, new=invite.name)
            return member
        except invites.BadInvite as error:
            raise CannotJoin(f"{str(error)[:1].upper()}{str(error)[1:]}.") from error

    def open_link(self, text: str) -> str:
        """Open an invite link; return "", or a text for the player if there is a problem."""
        try:
            self.join(text)
        except CannotJoin as error:
            self.opened, self.invited, self.refusal = self.opened + 1, "", str(error)
        return self.refusal

    def correct_code(self, member: Membership, text: str) -> str:
        """Accept a corrected invite code or a complete invite; return an error text, or ""."""
        if not text.lower().startswith(f"{invites.SCHEME}:"):
            return member.correct_code(text)
        try:
            self.join(text)
        except CannotJoin as error:
            return str(error)
        return ""

    def bring_file(self, path: Path, *, replace: bool = False) -> Membership:
        """Import the account key in the file at ``path``, or raise CannotJoin."""
        try:
            key_file = read_key_file(path)
        except OSError as error:
            raise CannotJoin(words.NO_KEY_FILE.format(path=path)) from error
        except BadKeyFile as error:
            raise CannotJoin(words.BAD_KEY_FILE) from error
        return self.bring(key_file, replace=replace)

    def bring(self, key_file: KeyFile, *, replace: bool = False) -> Membership:
        """Import an account key from another PC, or raise CannotJoin.

        If ``replace`` is set, the key may overwrite a different key for the same host.
        """
        old, own_key = self.hosts.get(key_file.record.id), self.keys.get(key_file.record.id)
        is_other = own_key is not None and not own_key.matches(key_file.key.reveal())
        if old is not None and is_other and not replace:
            raise OtherKey(words.OTHER_KEY.format(username=old.username, name=old.name))
        record = evolve(
            old or key_file.record,
            fingerprint=key_file.record.fingerprint,
            next_fingerprint=key_file.record.next_fingerprint,
            username="",
        )
        member = self._membership(record)
        member.agree()
        member.bring(key_file.key)
        return member

    def save_key(self, member: Membership, folder: Path) -> str:
        """Write the account key to a file in ``folder``; return a text for the player."""
        key = member.key
        if key is None:
            return words.NO_KEY_YET
        try:
            path = write_key_file(folder, member.record, key)
        except OSError as error:
            return words.NOT_WRITABLE.format(folder=folder, why=error.strerror or error)
        return words.KEY_SAVED.format(path=path)

    def _membership(
        self, record: HostRecord, before: HostRecord | None = None, *, code: str = ""
    ) -> Membership:
        """Create the host's membership, which replaces any earlier one; raises CannotJoin.

        ``code`` is the code of the invite that the player has opened.
        """
        old = self.members.get(record.id)
        if old is not None and old.host.stage in (Stage.STARTING, Stage.PLAYING):
            raise CannotJoin(words.PLAYING_ELSEWHERE.format(name=record.name))
        try:
            self.hosts.put(before or record)
        except TooManyHosts:
            raise CannotJoin(words.TOO_MANY_HOSTS) from None
        if old is not None:
            old.leave()
        self._show_host(record)
        member = self.members[record.id] = Membership(self, record, before)
        if code and member.is_joining:
            self.keys.put(invite_name(record.id), Secret(code))
        if self.running:
            member.refresh()
            member.inputs.check(False)
        return member

    def _show_host(self, record: HostRecord) -> None:
        """Make the page show this host, because its invite was opened."""
        self.opened, self.invited, self.refusal = self.opened + 1, record.id, ""

    def leave(self, member: Membership) -> str:
        """Remove a host and its key, but keep the game's files; return an error text, or "".

        If the host has a new certificate that the player has not trusted yet, only this certificate
        is removed; the host and its key stay.
        """
        if member.before is not None:
            self._membership(member.before)
            return ""
        if member.host.stage in (Stage.STARTING, Stage.PLAYING):
            return words.LEAVE_FIRST
        member.leave()
        name = member.record.id
        self.members.pop(name, None)
        self.hosts.drop(name)
        self.keys.drop(name)
        self.keys.drop(invite_name(name))
        self.keys.drop(new_key_name(name))
        return ""

    # -- services for memberships -----------------------------------------------

    def client(self, record: HostRecord, content_port: int = 0) -> HostClient:
        port = content_port or record.port
        if record.public:
            pool = make_pool(self.clock, _target(record))
        else:
            pool = Pool(
                self.clock, plain(self.clock, record.host, port), 502, "upstream_unreachable"
            )
        self._pools.append(pool)
        return HostClient(pool, self.clock, f"{record.host}:{port}")

    def in_thread(self, work: Callable[..., Any], *args: Any) -> Deferred[Any]:
        if self._threads is not None:
            return self._threads(work, *args)
        return deferToThreadPool(self.clock, self.clock.getThreadPool(), work, *args)

    def keep(self, record: HostRecord) -> None:
        self.hosts.put(record)

    def open_way(self, record: HostRecord) -> tuple[str, str]:
        if self._playing:
            played = self.hosts.get(self._playing)
            name = played.name if played is not None else self._playing
            raise CannotPlay(words.PLAYING_ELSEWHERE.format(name=name))
        if not record.public:
            self._playing = record.id
            return way_to(record, self.relay_port)
        self._relay = self._start_relay(_target(record))
        self._playing = record.id
        return way_to(record, self._relay.port, self._relay.host)

    def _start_relay(self, target: Target) -> RelayService:
        """Start the relay for the game, or raise PortBusy.

        On the host's own PC, the metagame uses the game's port at 127.0.0.1. If the port is in use,
        the relay listens on the same port of another loopback address.
        """
        relay = RelayService(self.clock, target, port=self.relay_port)
        try:
            relay.startService()
        except PortBusy:
            relay.pool.close()
            relay = RelayService(self.clock, target, port=self.relay_port, host=SECOND_HOST)
            try:
                relay.startService()
            except PortBusy:
                relay.pool.close()
                raise
        return relay

    def close_way(self, record: HostRecord) -> Any:
        return self._close_way() if record.id == self._playing else None

    def _close_way(self) -> Any:
        relay, self._relay, self._playing = self._relay, None, ""
        return relay.stopService() if relay is not None else None

    # -- periodic work ----------------------------------------------------------------

    def _refresh(self) -> None:
        for member in self.members.values():
            member.poll()

    def _sweep(self) -> None:
        self._pools = [pool for pool in self._pools if not pool.closed]
        for pool in self._pools:
            pool.sweep(self.clock.seconds())


def _target(record: HostRecord) -> Target:
    return Target(record.host, record.port, record.fingerprint, record.next_fingerprint)

"""The launcher's updates: newer versions that the owner of a host has signed.

Only a host with a pinned certificate can offer an update, and the player is asked once for each
host whether to take its updates. The new version is installed while no game runs. It is started
after the next game, or when the launcher starts again.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.application.service import MultiService
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from svcserver.edge.launcher_update import BadOffer, LauncherOffer, is_newer, verified
from svcserver.kernel.every import Every
from svcserver.launcher import words
from svcserver.launcher.host_client import NoReply
from svcserver.launcher.host_list import NO, YES
from svcserver.launcher.membership import Membership
from svcserver.launcher.own_program import OwnProgram, UpdateFailed
from svcserver.launcher.program import Launcher

log = Logger()

LIST = "/content/v1/launcher"
LOOK_S = 300.0  # between two looks at the hosts' lists
TICK_S = 1.0
DOWNLOAD_S = 900.0  # how long a download of the launcher may take
MOST_ENTRIES = 32  # entries of a host's list


@define(eq=False, slots=False)
class Updates(MultiService):
    """The search for an update, its installation, and the restart."""

    launcher: Launcher
    program: OwnProgram
    version: str
    restart: Callable[[], object] | None  # ends this launcher and starts the newest version
    text: str = ""  # for the player
    ready: bool = field(default=False, init=False)  # a new version is installed
    _failed: set[str] = field(factory=set, init=False)  # hashes of files that cannot be used
    _offer: tuple[LauncherOffer, Membership] | None = field(default=None, init=False)
    question: Membership | None = field(default=None, init=False)  # the player is asked about it
    _played: bool = field(default=False, init=False)  # a game ran while an update was ready
    _job: Deferred[Any] | None = field(default=None, init=False)
    _looked_at: float = field(default=-LOOK_S, init=False)
    _looked_for: set[str] = field(factory=set, init=False)  # the ids of the hosts of the last look

    def __attrs_post_init__(self) -> None:
        MultiService.__init__(self)
        if failed := self.program.failed:
            self.text = words.UPDATE_UNDONE.format(version=failed, current=self.version)
        tick = Every(self.launcher.clock, TICK_S, self._tick, "the check for an update")
        tick.setServiceParent(self)

    def stopService(self) -> Any:
        if self._job is not None:
            self._job.cancel()
        return MultiService.stopService(self)

    def shown(self) -> dict[str, Any]:
        """Return the part of the page's data that is about an update."""
        return {
            "text": self.text,
            "ready": self.ready,
            "can_restart": self.ready and not self.launcher.busy,
            "host": self.question.record.id if self.question is not None else "",
        }

    def _tick(self) -> None:
        if self._job is not None:
            return
        member = self.question
        is_known = member is not None and self.launcher.members.get(member.record.id) is member
        if member is not None and (member.record.updates or not is_known):
            self.question, self.text, self._looked_at = None, "", -LOOK_S
        pending = self.ready or self._offer is not None
        hosts = {member.record.id for member in self._members()}
        is_due = self.launcher.clock.seconds() - self._looked_at >= LOOK_S
        if not pending and (is_due or hosts - self._looked_for):  # a new host need not wait
            self._looked_at, self._looked_for = self.launcher.clock.seconds(), hosts
            self._begin(self._find_newest_version())
        elif self.launcher.in_game:
            self._played = self._played or pending
        elif self.launcher.busy:
            return
        elif self._offer is not None:
            self._begin(self._install(*self._offer))
        elif self.ready and self._played and self.restart is not None:
            self._played = False
            self.restart()

    def _begin(self, work: Any) -> None:
        job: Deferred[Any] = Deferred.fromCoroutine(work)
        self._job = job
        job.addErrback(_log_failure)
        job.addBoth(self._end)

    def _end(self, _: object) -> None:
        self._job = None

    def _members(self) -> list[Membership]:
        """Return the memberships of the hosts that are asked for updates."""
        return [
            member
            for member in self.launcher.members.values()
            if member.record.username
            and member.record.public
            and member.before is None
            and member.record.updates != NO
        ]

    async def _find_newest_version(self) -> None:
        """Find the newest validly signed version that a host offers.

        If no host from which the player accepts updates has an offer, the player is asked whether
        to take the first offer of another host. Hosts from which the player has refused updates are
        not asked.
        """
        best: tuple[LauncherOffer, Membership] | None = None
        asking: tuple[LauncherOffer, Membership] | None = None
        for member in self._members():
            for offer in await self._usable_offers(member):
                if member.record.updates != YES:
                    asking = asking or (offer, member)
                elif best is None or is_newer(offer.version, best[0].version):
                    best = offer, member
        if best is not None:
            self._offer, self.question = best, None
            offer, member = best
            self.text = words.UPDATE_OFFERED.format(version=offer.version, host=member.record.name)
        elif asking is not None:
            offer, self.question = asking
            name = self.question.record.name
            self.text = words.UPDATE_ASKED.format(version=offer.version, host=name)

    async def _usable_offers(self, member: Membership) -> list[LauncherOffer]:
        """Return the host's offers of newer versions that have not failed on this PC."""
        try:
            offers = await self._offers(member)
        except CancelledError:
            raise
        except Exception:
            log.failure("the launchers that {host} offers cannot be read", host=member.record.name)
            return []
        return [
            offer
            for offer in offers
            if is_newer(offer.version, self.version)
            and offer.sha256 not in self._failed
            and offer.version != self.program.failed
        ]

    async def _offers(self, member: Membership) -> list[LauncherOffer]:
        """Return the validly signed launcher versions that the host offers for this PC."""
        try:
            reply = await member.client.fetch_reply("GET", LIST)
        except NoReply:
            return []
        entries = reply.fields.get("files") if reply.status == 200 else None
        offers = []
        for entry in entries[:MOST_ENTRIES] if isinstance(entries, list) else ():
            if not isinstance(entry, dict) or entry.get("name") != self.program.file_name:
                continue
            if "signature" not in entry:
                continue  # the owner offers it for download only
            pinned = (member.record.fingerprint, member.record.next_fingerprint)
            try:
                offers.append(verified(entry, pinned))
            except BadOffer as error:
                log.warn(
                    "the launcher that {host} offers is ignored: {why}",
                    host=member.record.name,
                    why=error,
                )
        return offers

    async def _install(self, offer: LauncherOffer, member: Membership) -> None:
        """Download and install a version; a failure changes nothing."""
        self._offer = None
        try:
            reply = await member.client.fetch_reply(
                "GET", f"{LIST}/{offer.name}", limit=offer.size, patience_s=DOWNLOAD_S
            )
            if reply.status != 200:
                raise NoReply("answer")
            await self.launcher.in_thread(self._add, offer, reply.body)
        except NoReply:
            self.text = words.UPDATE_LATER.format(version=offer.version)
        except (UpdateFailed, OSError) as error:
            self._failed.add(offer.sha256)
            text = "version {version} cannot be installed: {why}"
            log.warn(text, version=offer.version, why=error)
            self.text = words.UPDATE_FAILED.format(version=offer.version, why=error)
        else:
            self.ready = True
            text = words.UPDATE_READY if self.restart is not None else words.UPDATE_NEXT_START
            self.text = text.format(version=offer.version)

    def _add(self, offer: LauncherOffer, content: bytes) -> None:
        """Install a downloaded file, if it is the file that the owner has signed."""
        if len(content) != offer.size or hashlib.sha256(content).hexdigest() != offer.sha256:
            raise UpdateFailed("the download is damaged")
        self.program.add(offer.version, content)


def _log_failure(failure: Failure) -> None:
    """Log why an update failed, unless it was cancelled because the launcher ends."""
    if failure.check(CancelledError) is None:
        log.failure("the update failed", failure)

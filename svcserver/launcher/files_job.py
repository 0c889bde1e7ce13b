"""The game's files of one host: the list is read, compared, and what is missing downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.accounts import general, lost
from svcserver.launcher.asking import HostClient, Lost
from svcserver.launcher.fetching import CannotFetch, Changed, Fetch, Rate
from svcserver.launcher.game_folder import Comparison, GameFolder, Progress
from svcserver.launcher.listing import LONGEST_LIST, BadListing, Listing, read_listing

MANIFEST = "/content/v1/manifest"
MOST_CHANGES = 3  # times that the host's files may change in one download


class NoListing(CannotFetch):
    """The host is there, and hands out no files."""


@define(eq=False, slots=False)
class FilesJob:
    """Checks and downloads for one folder; one at a time."""

    clock: Any
    client: HostClient
    in_thread: Callable[..., Deferred[Any]]
    folder: GameFolder
    rate: Rate = field(factory=Rate)
    progress: Progress = field(factory=Progress)
    build: str = ""
    program: str = ""  # of the files the one that starts the game, as the list says
    _etag: str = ""  # of the list that was read last
    _fetch: Fetch | None = None

    @property
    def note(self) -> str:
        """A sentence while a download waits."""
        return self._fetch.note if self._fetch is not None else ""

    def stop(self) -> None:
        """End the check or download that runs."""
        self.progress.stop = True
        if self._fetch is not None:
            self._fetch.stop()

    async def listing(self) -> Listing:
        """The host's list; raises CannotFetch."""
        try:
            reply = await self.client.ask("GET", MANIFEST, limit=LONGEST_LIST)
        except Lost as why:
            raise CannotFetch(lost(why)) from why
        if reply.status in (404, 502, 503):
            raise NoListing(words.NO_FILES)
        if reply.status != 200:
            raise CannotFetch(general(reply))
        try:
            found: Listing = await self.in_thread(read_listing, reply.body)
        except BadListing as why:
            raise CannotFetch(words.NOT_OUR_HOST) from why
        tag = reply.headers.get("etag", "")
        self.build, self.program = found.build, found.program
        self._etag = tag if tag.isascii() else ""
        return found

    async def is_newest(self) -> bool:
        """Whether the host's list is the one that was read last, as far as it tells."""
        known = {"If-None-Match": self._etag}
        if not self._etag:
            return True
        try:
            reply = await self.client.ask("GET", MANIFEST, headers=known, limit=LONGEST_LIST)
        except Lost:
            return True
        return reply.status != 200 or reply.headers.get("etag") == self._etag

    async def check(self, *, thorough: bool) -> tuple[Listing, Comparison]:
        """What is missing; raises CannotFetch or Stopped."""
        self.progress = progress = Progress()
        listing = await self.listing()
        return listing, await self._compare(listing, progress, thorough)

    async def _compare(self, listing: Listing, progress: Progress, thorough: bool) -> Comparison:
        try:
            found: Comparison = await self.in_thread(
                lambda: self.folder.compare(listing.files, progress, thorough=thorough)
            )
        except OSError as why:
            raise CannotFetch(_unreadable(self.folder, why)) from why
        return found

    async def fetch(self, key: Secret) -> None:
        """Download what is missing; raises CannotFetch or Stopped."""
        for _ in range(MOST_CHANGES):
            _, found = await self.check(thorough=False)
            if found.whole:
                return
            self.progress = Progress()
            self._fetch = Fetch(
                self.clock, self.client, key, self.folder, self.in_thread, self.rate, self.progress
            )
            try:
                await self._fetch.run(found.wrong)
            except Changed:
                continue  # another version: its list is read, and what fits is kept
            finally:
                self._fetch = None
            return
        raise CannotFetch(words.FILES_CHANGED)


def _unreadable(folder: GameFolder, why: OSError) -> str:
    return words.NOT_WRITABLE.format(folder=folder.root, why=why.strerror or why)


def damage(found: Comparison, listing: Listing) -> str:
    """What to say of an incomplete folder; nothing where there is no game yet."""
    if len(found.wrong) == len(listing.files):
        return ""
    if len(found.wrong) == 1:
        return words.DAMAGED_ONE.format(path=found.wrong[0].path)
    return words.DAMAGED.format(count=len(found.wrong))

"""The game files of one host: the comparison with the host's list, and the download."""

from collections.abc import Callable
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from svcserver.kernel.game_paths import LONGEST_LIST
from svcserver.kernel.secrets import Secret
from svcserver.launcher import words
from svcserver.launcher.accounts import explain_no_reply, general
from svcserver.launcher.downloads import Download, DownloadFailed, DownloadRate, ListingChanged
from svcserver.launcher.game_folder import Comparison, GameFolder, Progress
from svcserver.launcher.host_client import HostClient, NoReply
from svcserver.launcher.listing import BadListing, Listing, read_listing

MANIFEST = "/content/v1/manifest"
MOST_CHANGES = 3  # changes of the host's files during one download


class NoListing(DownloadFailed):
    """The error when the host offers no game files."""


@define(eq=False, slots=False)
class GameFiles:
    """The checks and downloads for one folder; only one check or download runs at a time."""

    clock: Any
    client: HostClient
    in_thread: Callable[..., Deferred[Any]]
    folder: GameFolder
    rate: DownloadRate = field(factory=DownloadRate)
    progress: Progress = field(factory=Progress)
    build: str = ""
    program: str = ""  # the file that starts the game, according to the list
    _etag: str = ""  # ETag of the last list read
    _fetch: Download | None = None

    @property
    def note(self) -> str:
        """Why a download is delayed, as a text for the player; empty if no download is delayed."""
        return self._fetch.note if self._fetch is not None else ""

    def stop(self) -> None:
        """Stop the running check or download."""
        self.progress.stop = True
        if self._fetch is not None:
            self._fetch.stop()

    async def listing(self) -> Listing:
        """Return the host's list of files, or raise DownloadFailed."""
        try:
            reply = await self.client.fetch_reply("GET", MANIFEST, limit=LONGEST_LIST)
        except NoReply as error:
            raise DownloadFailed(explain_no_reply(error)) from error
        if reply.status in (404, 502, 503):
            raise NoListing(words.NO_FILES)
        if reply.status != 200:
            raise DownloadFailed(general(reply))
        try:
            listing: Listing = await self.in_thread(read_listing, reply.body)
        except BadListing as error:
            raise DownloadFailed(words.NOT_OUR_HOST) from error
        tag = reply.headers.get("etag", "")
        self.build, self.program = listing.build, listing.program
        self._etag = tag if tag.isascii() else ""
        if not listing.has_program:
            raise NoListing(words.NO_FILES)
        return listing

    async def is_newest(self) -> bool:
        """Return whether the host still offers the list that was last read; True if unknown."""
        known = {"If-None-Match": self._etag}
        if not self._etag:
            return True
        try:
            reply = await self.client.fetch_reply(
                "GET", MANIFEST, headers=known, limit=LONGEST_LIST
            )
        except NoReply:
            return True
        return reply.status != 200 or reply.headers.get("etag") == self._etag

    async def check(self, *, thorough: bool) -> tuple[Listing, Comparison]:
        """Compare the folder with the host's list; raise DownloadFailed or Stopped."""
        self.progress = progress = Progress()
        listing = await self.listing()
        return listing, await self._compare(listing, progress, thorough)

    async def _compare(self, listing: Listing, progress: Progress, thorough: bool) -> Comparison:
        try:
            comparison: Comparison = await self.in_thread(
                lambda: self.folder.compare(listing.files, progress, thorough=thorough)
            )
        except OSError as error:
            reason = error.strerror or error
            text = words.NOT_WRITABLE.format(folder=self.folder.root, why=reason)
            raise DownloadFailed(text) from error
        return comparison

    async def fetch(self, key: Secret) -> None:
        """Download the missing files, or raise DownloadFailed or Stopped."""
        for _ in range(MOST_CHANGES):
            _, comparison = await self.check(thorough=False)
            if comparison.whole:
                return
            self.progress = Progress()
            self._fetch = Download(
                self.clock, self.client, key, self.folder, self.in_thread, self.rate, self.progress
            )
            try:
                await self._fetch.run(comparison.wrong)
            except ListingChanged:
                continue  # read the new version's list; matching files are kept
            finally:
                self._fetch = None
            return
        raise DownloadFailed(words.FILES_CHANGED)


def damage(comparison: Comparison, listing: Listing) -> str:
    """Return a text for the player about missing or damaged files of the list.

    If no listed file is intact, the text is empty: the game is probably not installed yet.
    """
    if len(comparison.wrong) == len(listing.files):
        return ""
    if len(comparison.wrong) == 1:
        return words.DAMAGED_ONE.format(path=comparison.wrong[0].path)
    return words.DAMAGED.format(count=len(comparison.wrong))

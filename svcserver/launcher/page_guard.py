"""The access control of the page: only this user's browser has access, with a session secret.

This module does no I/O. Any web page can send requests to loopback, any name may resolve to
127.0.0.1, and other users of this PC can connect, too. So a request must have the page's exact
address as Host and come from the page's own origin. The page's requests also carry the session
secret, except requests for static files and for a new session. Only the browser that opened the
link has this secret. The secret is not a cookie, because browsers send the cookies of a host to all
its ports.
"""

from collections.abc import Callable, Sequence

from attrs import define, field

from svcserver.http.crosssite import is_loopback
from svcserver.kernel.secrets import Secret, hex_token

MOST_SESSIONS = 32
SILENT_S = 1800.0
LATE_S = 2.0
_SITES = (b"same-origin", b"none")


@define
class PageSessions:
    """The one-time tokens in links, and the sessions that browsers got for such tokens."""

    _tokens: list[Secret] = field(factory=list)
    _sessions: list[Secret] = field(factory=list)

    def new_token(self) -> str:
        """Return a new one-time token for a link."""
        token = hex_token(64)
        self._tokens = [*self._tokens[1 - MOST_SESSIONS :], Secret(token)]
        return token

    def enter(self, offered: str) -> str | None:
        """Use up a link's token; return a new session's secret, or None for a wrong token."""
        for token in self._tokens:
            if token.matches(offered):
                self._tokens.remove(token)
                session = hex_token(64)
                self._sessions = [*self._sessions[1 - MOST_SESSIONS :], Secret(session)]
                return session
        return None

    def knows(self, offered: bytes) -> bool:
        """Return whether ``offered`` is the secret of a session."""
        return any([session.matches(offered) for session in self._sessions])


@define
class OpenPages:
    """The pages that are open in browsers; each page has its own session.

    A page reports when it is closed. If the browser crashes, there is no report, so a page counts
    as closed once it has been silent for ``SILENT_S``. ``SILENT_S`` is long, because browsers
    slow down pages in the background.

    A request of a closed page may arrive after the report, so requests of its session do not count
    for ``LATE_S``. A page that was only reloaded counts as open again with its next request.
    """

    seconds: Callable[[], float]  # the current time
    _open: dict[bytes, float] = field(factory=dict)  # session -> time of its last request
    _closed: dict[bytes, float] = field(factory=dict)  # session -> time of its report
    _since: float = 0.0  # since when no page is open, and no work is in progress

    def expect(self) -> None:
        """Count a page as open, because a browser is about to open it."""
        self._open[b""] = self.seconds()

    def use(self, session: bytes) -> None:
        """Record that the page with this session is open."""
        self._open.pop(b"", None)
        now = self.seconds()
        if session not in self._closed or now - self._closed[session] >= LATE_S:
            self._open[session] = now

    def close(self, session: bytes) -> None:
        """Count the page with this session as closed."""
        if self._open.pop(session, None) is not None:
            self._since = self._closed[session] = self.seconds()

    def unused_s(self, *, busy: bool) -> float:
        """Return for how many seconds no page was open and the launcher was not ``busy``."""
        now = self.seconds()
        self._open = {page: used for page, used in self._open.items() if now - used < SILENT_S}
        self._closed = {page: end for page, end in self._closed.items() if now - end < LATE_S}
        if self._open or busy:
            self._since = now
        return now - self._since


def foreign(
    peer: str,
    own: bytes,
    method: bytes,
    *,
    hosts: Sequence[bytes],
    origins: Sequence[bytes],
    sites: Sequence[bytes],
    modes: Sequence[bytes],
) -> str:
    """Check that a request comes from the page; return the name of the failed check, or "".

    ``own`` is the page's address as host:port.
    """
    if not is_loopback(peer):
        return "peer"
    if list(hosts) != [own]:
        return "host"
    if any(origin != b"http://" + own for origin in origins):
        return "origin"
    if method != b"GET" and not origins and sites:
        return "origin"  # browsers always send Origin with a POST
    followed = method == b"GET" and list(modes) == [b"navigate"]
    if not followed and any(site not in _SITES for site in sites):
        return "sec_fetch"
    return ""

"""The answers to requests of the launcher's page and of other launcher processes.

The page's requests need a session, except those for static files and for a new session.

The page never gets a key from the launcher. To move a key to another PC, the launcher writes a key
file. On the other PC, the player chooses this file, and the page sends it to the launcher there.
"""

from collections.abc import Callable, Iterator
from importlib.resources import files
from itertools import count
from pathlib import Path
from typing import Any

from attrs import define, field

from svcserver.kernel import json
from svcserver.kernel.digits import whole_in
from svcserver.kernel.secrets import Secret
from svcserver.launcher import one_instance, words
from svcserver.launcher.choices import FASTEST, Choices, choose
from svcserver.launcher.command import LONGEST
from svcserver.launcher.host_list import NO, YES
from svcserver.launcher.key_files import BadKeyFile, parse_key_file
from svcserver.launcher.membership import Membership
from svcserver.launcher.page_guard import OpenPages, PageSessions
from svcserver.launcher.page_server import ENTER, PageReply, PageRequest
from svcserver.launcher.program import CannotJoin, Launcher, OtherKey
from svcserver.launcher.view import show_all

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}
INDEX = "index.html"
LONGEST_PATH = 1024  # characters


class MalformedRequest(Exception):
    """The error for a malformed request."""


def read_files() -> dict[str, PageReply]:
    """Return the page's static files, as a dict from file name to reply."""
    replies = {}
    for file in files("svcserver.launcher").joinpath("static").iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            replies[file.name] = PageReply(200, file.read_bytes(), kind)
    return replies


@define
class PageHandler:
    """The handler of the page's requests."""

    launcher: Launcher
    sessions: PageSessions
    home: Path
    downloads: Path  # for key files and passports
    link: Callable[[], str] = str  # a new link to this page
    quit: Callable[[], None] = lambda: None  # ends the launcher
    restart: Callable[[], str] = str  # starts the launcher's new version, or says why not
    served: Callable[[], None] = lambda: None  # called when a browser has got the page's content
    update_text: Callable[[], dict[str, Any]] = dict  # what the page shows of an update
    secret: Secret | None = None  # a second start needs the secret to hand over its invite
    _files: dict[str, PageReply] = field(factory=read_files)
    _numbers: Iterator[int] = field(factory=count)
    pages: OpenPages = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.pages = OpenPages(self.launcher.clock.seconds)

    def answer(self, request: PageRequest) -> PageReply:
        """Answer a request that has passed the check of its origin."""
        if request.method == "GET" and request.path.count("/") == 1:
            return self._files.get(
                request.path[1:] or INDEX, PageReply.from_value({"error": "not_found"}, 404)
            )
        if request.method not in ("GET", "POST"):
            return PageReply.from_value({"error": "method_not_allowed"}, 405)
        try:
            if request.path == ENTER:
                return self._enter(_body(request))
            if request.path == "/api/running":
                return self._running(_body(request))
            if request.path == "/api/hand-over":
                return self._hand_over(_body(request))
            if request.path == "/api/end":
                return self._end(_body(request))
            if not self.sessions.knows(request.session):
                return PageReply.from_value({"error": "session"}, 403)
            self.pages.use(request.session)
            return self._api(request)
        except MalformedRequest:
            return PageReply.from_value({"error": "bad_request"}, 400)

    def _enter(self, body: dict[str, Any]) -> PageReply:
        session = self.sessions.enter(_text(body, "token", 256))
        if session is None:
            return PageReply.from_value({"error": "token"}, 403)
        return PageReply.from_value({"session": session})

    def _running(self, body: dict[str, Any]) -> PageReply:
        """Prove to a second launcher that this one knows the secret in ``running.json``."""
        nonce = _text(body, "nonce", 64)
        if self.secret is None or len(nonce) < 32:
            raise MalformedRequest
        return PageReply.from_value({"proof": one_instance.proof_of(self.secret, nonce)})

    def _may_control(self, body: dict[str, Any]) -> bool:
        """Return whether a request comes from another launcher process of this user."""
        return self.secret is not None and self.secret.matches(_text(body, "secret", 256))

    def _end(self, body: dict[str, Any]) -> PageReply:
        """Handle the command ``remove``: end the launcher, unless a game runs."""
        if not self._may_control(body):
            return PageReply.from_value({"error": "secret"}, 403)
        if self.launcher.in_game:
            return PageReply.from_value({"error": "playing"}, 409)
        self.quit()
        return PageReply.from_value({})

    def _hand_over(self, body: dict[str, Any]) -> PageReply:
        if not self._may_control(body):
            return PageReply.from_value({"error": "secret"}, 403)
        self.pages.expect()
        invite = _text(body, "invite", one_instance.LONGEST_LINK)
        if invite:
            self.launcher.open_link(invite)
        return PageReply.from_value({"link": self.link()})

    def _api(self, request: PageRequest) -> PageReply:
        _, _, *parts = request.path.split("/")
        match request.method, parts:
            case "GET", ["state"]:
                self.served()
                return PageReply.from_value(self._state())
            case "GET", ["hosts", host, "pictures", number]:
                return self._picture(host, number)
            case "POST", ["join"]:
                return self._join(_body(request))
            case "POST", ["import"]:
                return self._import(request.body)
            case "POST", ["import", "replace"]:
                return self._import(request.body, replace=True)
            case "POST", ["closed" | "restart" | "quit" as command]:
                return self._control(command, request.session)
            case "POST", ["hosts", host, action] if action in _ACTIONS:
                member = self.launcher.members.get(host)
                if member is None:
                    return PageReply.from_value(
                        {"error": "not_found", "sentence": words.UNKNOWN_HOST}, 404
                    )
                sentence = _ACTIONS[action](self, member, _body(request))
                return PageReply.from_value({"sentence": sentence or "", "state": self._state()})
        return PageReply.from_value({"error": "not_found"}, 404)

    def _control(self, command: str, session: bytes) -> PageReply:
        """Carry out a command that concerns the page or the whole launcher, not a single host."""
        if command == "closed":
            self.pages.close(session)
        elif command == "restart":
            return PageReply.from_value({"sentence": self.restart()})
        else:
            self.quit()
        return PageReply.from_value({})

    def _state(self) -> dict[str, Any]:
        """Return the state with a sequence number, by which the page recognises late replies."""
        return {
            **show_all(self.launcher),
            "update": self.update_text(),
            "number": next(self._numbers),
        }

    def _join(self, body: dict[str, Any]) -> PageReply:
        try:
            member = self.launcher.join(_text(body, "invite", 4096))
        except CannotJoin as error:
            return PageReply.from_value({"sentence": str(error)})
        return PageReply.from_value({"id": member.record.id, "state": self._state()})

    def _import(self, content: bytes, *, replace: bool = False) -> PageReply:
        """Import the account key from the content of a key file."""
        try:
            member = self.launcher.bring(parse_key_file(content), replace=replace)
        except BadKeyFile:
            return PageReply.from_value({"sentence": words.BAD_KEY_FILE})
        except CannotJoin as error:
            return PageReply.from_value(
                {"sentence": str(error), "other_key": isinstance(error, OtherKey)}
            )
        return PageReply.from_value({"id": member.record.id, "state": self._state()})

    def _picture(self, host: str, number: str) -> PageReply:
        member = self.launcher.members.get(host)
        pictures = member.news.pictures if member is not None else []
        index = whole_in(number, 2)
        if index is None or index >= len(pictures):
            return PageReply.from_value({"error": "not_found"}, 404)
        picture = pictures[index]
        return PageReply(200, picture.body, picture.kind)

    def change_settings(self, member: Membership, body: dict[str, Any]) -> str:
        """Change the player's settings for a host; return an error text, or ""."""
        limit = body.get("speed_limit")
        if type(limit) is not int or not 0 <= limit < FASTEST:
            raise MalformedRequest
        chosen = Choices(
            _text(body, "folder", LONGEST_PATH),
            _text(body, "command", LONGEST),
            _text(body, "runner", LONGEST_PATH),
            limit,
        )
        return choose(member, chosen, self.home)


# the page's actions on one host; a text in return is for the player
_ACTIONS: dict[str, Callable[[PageHandler, Membership, dict[str, Any]], str | None]] = {
    "agree": lambda page, member, body: member.agree(),
    "choose": lambda page, member, body: member.choose(_text(body, "name", 64).strip()),
    "correct-code": lambda page, member, body: page.launcher.correct_code(
        member, _text(body, "code", 4096).strip()
    ),
    "updates": lambda page, member, body: member.change(
        updates=YES if body.get("take") is True else NO
    ),
    "try-name": lambda page, member, body: member.try_name(_text(body, "name", 64).strip()),
    "check": lambda page, member, body: member.inputs.check(body.get("thorough") is True),
    "fetch": lambda page, member, body: member.inputs.fetch(),
    "stop": lambda page, member, body: member.inputs.stop(),
    "play": lambda page, member, body: member.inputs.play(),
    "leave": lambda page, member, body: page.launcher.leave(member),
    "save-key": lambda page, member, body: page.launcher.save_key(member, page.downloads),
    "renew-key": lambda page, member, body: member.renew_key(),
    "save-passport": lambda page, member, body: member.save_passport(page.downloads),
    "settings": PageHandler.change_settings,
}


def _body(request: PageRequest) -> dict[str, Any]:
    if request.method != "POST":
        raise MalformedRequest
    try:
        data = json.parse(request.body)
    except json.BadJson:
        raise MalformedRequest from None
    if not isinstance(data, dict):
        raise MalformedRequest
    return data


def _text(data: dict[str, Any], name: str, longest: int) -> str:
    value = data.get(name)
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise MalformedRequest
    return value

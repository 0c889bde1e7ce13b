"""What the page may ask: its files by anybody here, everything else with the session.

No key is ever in the page. One that is saved for another PC is written by the launcher itself, and
of one that comes the page passes on the file which the player has chosen, unread: its bytes are in
the request alone, and no answer repeats them.
"""

from __future__ import annotations

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
from svcserver.launcher.choices import FASTEST, LONGEST_PATH, Choices, choose
from svcserver.launcher.command import LONGEST
from svcserver.launcher.key_files import BadKeyFile, parse_key_file
from svcserver.launcher.membership import Membership
from svcserver.launcher.page_guard import Entrance
from svcserver.launcher.page_server import ENTER, Said, Wish
from svcserver.launcher.program import CannotJoin, Launcher, OtherKey
from svcserver.launcher.view import show_all

_KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml; charset=utf-8",
}
INDEX = "index.html"


class Bad(Exception):
    """The request does not fit."""


def read_files() -> dict[str, Said]:
    """The page's own files, by name."""
    found = {}
    for one in files("svcserver.launcher").joinpath("static").iterdir():
        kind = _KINDS.get(one.name.rpartition(".")[2])
        if kind is not None:
            found[one.name] = Said(200, one.read_bytes(), kind)
    return found


@define
class Page:
    """Answers what the page in the browser asks, once the server has let it in."""

    launcher: Launcher
    entrance: Entrance
    home: Path
    downloads: Path  # where what the player takes along is written
    link: Callable[[], str] = str  # a new link to this page
    quit: Callable[[], None] = lambda: None  # ends the launcher
    secret: Secret | None = None  # of a second start, which hands over its invite
    _files: dict[str, Said] = field(factory=read_files)
    _numbers: Iterator[int] = field(factory=count)

    def answer(self, wish: Wish) -> Said:
        """The answer to a request that comes from this machine and our own origin."""
        if wish.method == "GET" and wish.path.count("/") == 1:
            return self._files.get(wish.path[1:] or INDEX, Said.of({"error": "not_found"}, 404))
        if wish.method not in ("GET", "POST"):
            return Said.of({"error": "method_not_allowed"}, 405)
        try:
            if wish.path == ENTER:
                return self._enter(_body(wish))
            if wish.path == "/api/running":
                return self._running(_body(wish))
            if wish.path == "/api/hand-over":
                return self._hand_over(_body(wish))
            if not self.entrance.knows(wish.session):
                return Said.of({"error": "session"}, 403)
            return self._api(wish)
        except Bad:
            return Said.of({"error": "bad_request"}, 400)

    def _enter(self, said: dict[str, Any]) -> Said:
        session = self.entrance.enter(_text(said, "token", 256))
        if session is None:
            return Said.of({"error": "token"}, 403)
        return Said.of({"session": session})

    def _running(self, said: dict[str, Any]) -> Said:
        """Prove to a second start that this is the launcher whose file it has found."""
        nonce = _text(said, "nonce", 64)
        if self.secret is None or len(nonce) < 32:
            raise Bad
        return Said.of({"proof": one_instance.proof_of(self.secret, nonce)})

    def _hand_over(self, said: dict[str, Any]) -> Said:
        if self.secret is None or not self.secret.matches(_text(said, "secret", 256)):
            return Said.of({"error": "secret"}, 403)
        invite = _text(said, "invite", 4096)
        if invite:
            self._join(said)
        return Said.of({"link": self.link()})

    def _api(self, wish: Wish) -> Said:
        _, _, *parts = wish.path.split("/")
        match wish.method, parts:
            case "GET", ["state"]:
                return Said.of(self._state())
            case "GET", ["hosts", host, "pictures", number]:
                return self._picture(host, number)
            case "POST", ["join"]:
                return self._join(_body(wish))
            case "POST", ["import"]:
                return self._import(wish.body)
            case "POST", ["import", "replace"]:
                return self._import(wish.body, replace=True)
            case "POST", ["quit"]:
                self.quit()
                return Said.of({})
            case "POST", ["hosts", host, act] if act in _ACTS:
                member = self.launcher.members.get(host)
                if member is None:
                    return Said.of({"error": "not_found", "sentence": words.UNKNOWN_HOST}, 404)
                sentence = _ACTS[act](self, member, _body(wish))
                return Said.of({"sentence": sentence or "", "state": self._state()})
        return Said.of({"error": "not_found"}, 404)

    def _state(self) -> dict[str, Any]:
        """How things are, numbered: an answer that comes late is not to cover a newer one."""
        return {**show_all(self.launcher), "number": next(self._numbers)}

    def _join(self, said: dict[str, Any]) -> Said:
        try:
            member = self.launcher.join(_text(said, "invite", 4096))
        except CannotJoin as why:
            return Said.of({"sentence": str(why)})
        return Said.of({"id": member.record.id, "state": self._state()})

    def _import(self, content: bytes, *, replace: bool = False) -> Said:
        """Take over the key in a file's bytes."""
        try:
            member = self.launcher.bring(parse_key_file(content), replace=replace)
        except BadKeyFile:
            return Said.of({"sentence": words.BAD_KEY_FILE})
        except CannotJoin as why:
            return Said.of({"sentence": str(why), "other_key": isinstance(why, OtherKey)})
        return Said.of({"id": member.record.id, "state": self._state()})

    def _picture(self, host: str, number: str) -> Said:
        member = self.launcher.members.get(host)
        pictures = member.news.pictures if member is not None else []
        index = whole_in(number, 2)
        if index is None or index >= len(pictures):
            return Said.of({"error": "not_found"}, 404)
        found = pictures[index]
        return Said(200, found.body, found.kind)

    # -- acts on one host ------------------------------------------------------

    def agree(self, member: Membership, _: dict[str, Any]) -> None:
        member.agree()

    def choose(self, member: Membership, said: dict[str, Any]) -> None:
        member.choose(_text(said, "name", 64).strip())

    def try_name(self, member: Membership, said: dict[str, Any]) -> None:
        member.try_name(_text(said, "name", 64).strip())

    def check(self, member: Membership, said: dict[str, Any]) -> None:
        member.inputs.check(said.get("thorough") is True)

    def fetch(self, member: Membership, _: dict[str, Any]) -> None:
        member.inputs.fetch()

    def stop(self, member: Membership, _: dict[str, Any]) -> None:
        member.inputs.stop()

    def play(self, member: Membership, _: dict[str, Any]) -> None:
        member.inputs.play()

    def leave(self, member: Membership, _: dict[str, Any]) -> str:
        return self.launcher.leave(member)

    def save_key(self, member: Membership, _: dict[str, Any]) -> str:
        return self.launcher.save_key(member, self.downloads)

    def renew_key(self, member: Membership, _: dict[str, Any]) -> None:
        member.renew_key()

    def save_passport(self, member: Membership, _: dict[str, Any]) -> None:
        member.save_passport(self.downloads)

    def settings(self, member: Membership, said: dict[str, Any]) -> str:
        """Change how this host's game is kept and started; gives what is wrong."""
        limit = said.get("speed_limit")
        if type(limit) is not int or not 0 <= limit < FASTEST:
            raise Bad
        chosen = Choices(
            _text(said, "folder", LONGEST_PATH),
            _text(said, "command", LONGEST),
            _text(said, "runner", LONGEST_PATH),
            limit,
        )
        return choose(member, chosen, self.home)


Act = Callable[[Page, Membership, dict[str, Any]], str | None]
_ACTS: dict[str, Act] = {
    "agree": Page.agree,
    "choose": Page.choose,
    "try-name": Page.try_name,
    "check": Page.check,
    "fetch": Page.fetch,
    "stop": Page.stop,
    "play": Page.play,
    "leave": Page.leave,
    "save-key": Page.save_key,
    "renew-key": Page.renew_key,
    "save-passport": Page.save_passport,
    "settings": Page.settings,
}


def _body(wish: Wish) -> dict[str, Any]:
    if wish.method != "POST":
        raise Bad
    try:
        said = json.parse(wish.body)
    except json.BadJson:
        raise Bad from None
    if not isinstance(said, dict):
        raise Bad
    return said


def _text(said: dict[str, Any], name: str, longest: int) -> str:
    value = said.get(name)
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise Bad
    return value

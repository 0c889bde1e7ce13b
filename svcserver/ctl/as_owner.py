"""Requests to the running metagame as its owner, and the commands built on them."""

from __future__ import annotations

import getpass
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import click
from attrs import Attribute, field, frozen

from svcserver.ctl.host import Host, about_a_host, with_reason
from svcserver.ctl.http_get import NobodyListens, get_json, post_json
from svcserver.ctl.output import Out, fail
from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.shapes import members
from svcserver.kernel.system import epoch
from svcserver.stack.components import metagame_url

Reply = dict[str, Any]
Arguments = dict[str, Any]

KEY = "x-svc-user-api-key"
WHAT = "the metagame"


def actor() -> str:
    """Return the user of this machine, for the audit log."""
    try:
        return f"svcctl:{getpass.getuser()}"
    except (KeyError, OSError):
        return "svcctl"


@frozen
class Owner:
    """The dashboard's routes, called as the host's owner or with a key alone.

    By the machine's ticket, which needs no second factor. The key goes along for a metagame whose
    signing key has been changed in its file, or that is older than tickets.
    """

    base: str
    secret: str = field(repr=False)  # the signing key; empty where there is none
    key: str = field(default="", repr=False)

    def get(self, route: str, **query: str) -> Any:
        """Return the reply to ``GET /svc/api/ROUTE``; fails with one line."""
        return self._get(route, query)

    def find(self, route: str, *, nothing: tuple[int, ...] = (404,), **query: str) -> Any:
        """Do the same; return None for a status in ``nothing``."""
        return self._get(route, query, nothing)

    def post(self, route: str, body: dict[str, Any], reason: str = "") -> Any:
        """Return the reply to ``POST /svc/api/ROUTE``; fails with one line."""
        path = f"/svc/api/{route}"
        if reason:
            body = {**body, "Reason": reason}
        return post_json(self.base, path, self._headers("POST", path), body, WHAT)

    def _get(self, route: str, query: dict[str, str], nothing: tuple[int, ...] = ()) -> Any:
        path = _path(route, query)
        return get_json(self.base, path, self._headers("GET", path), WHAT, nothing)

    def _headers(self, method: str, path: str) -> dict[str, str]:
        by_key = {KEY: self.key} if self.key else {}
        return {**by_key, **machine_headers(self.secret, actor(), method, path, epoch())}


def _path(route: str, query: dict[str, str]) -> str:
    parameters = "&".join(f"{name}={quote(value, safe='')}" for name, value in query.items())
    return f"/svc/api/{route}" + (f"?{parameters}" if parameters else "")


def by_key(host: Host, key: str) -> Owner:
    """Return the routes as the account with this key sees them."""
    return Owner(metagame_url(host.variables("metagame")), "", key)


def owner_of(host: Host) -> Owner:
    """Return the routes as the owner, by the signing key or by ``owner.key``."""
    variables = host.variables("metagame")
    secret, key = variables.get(SIGNING_KEY, "").strip(), host.owner_key() or ""
    if not secret and not key:
        fail("only the owner may do this; give --config with a folder that has an owner.key")
    return Owner(metagame_url(variables), secret, key)


@frozen
class Act:
    """A decorator: the command that has the running metagame do ``POST /svc/api/ROUTE``.

    The members of the route's ``body`` are its parameters. ``arguments`` maps those that are
    arguments to the names that the help shows; ``fixed`` holds the values that the command sets
    itself, and all others are options. The function words the reply in a line; its docstring is
    the command's help.
    """

    route: str
    body: type[Any]
    arguments: Mapping[str, str]
    group: click.Group | None = None
    data: Callable[[Reply], Reply] = lambda reply: reply  # for --json
    fixed: Mapping[str, Any] = field(factory=dict)
    helps: Mapping[str, str] = field(factory=dict)
    options: Mapping[str, str] = field(factory=dict)  # their names, where not the member's
    types: Mapping[str, click.ParamType[Any]] = field(factory=dict)
    more: Sequence[Callable[..., Any]] = ()  # decorators: options that are no member
    reads: bool = False  # without arguments and options: GET the same route
    find: Mapping[str, Callable[[Owner, str], Reply]] = field(factory=dict)
    """Members that are an id: look up what the argument names."""
    send: Callable[[Owner, Callable[[], Reply], Arguments], Reply] = lambda _, act, __: act()
    """Has the act done, and waits before or after it."""
    offline: Callable[[Host, Arguments], Reply] | None = None
    """Does the act in the database and makes the route's reply, while no metagame runs."""

    def __call__(self, say: Callable[[Reply, Arguments], str | Sequence[str]]) -> click.Command:
        def run(host: Host, out: Out, reason: str, **arguments: Any) -> None:
            owner = owner_of(host)
            try:
                for member, find in self.find.items():
                    arguments[member] = find(owner, arguments[member])
                if self.reads and not any(arguments.values()):
                    reply = owner.get(self.route)
                else:
                    request = self._request(arguments)
                    reply = self.send(
                        owner, lambda: owner.post(self.route, request, reason), arguments
                    )
            except NobodyListens:
                if self.offline is None:
                    raise
                reply = self.offline(host, {**arguments, "reason": reason})
            out.data(self.data(reply))
            lines = say(reply, arguments)
            out.text(*([lines] if isinstance(lines, str) else lines))

        command: Callable[..., Any] = about_a_host(run)
        for decorate in self.more:
            command = decorate(command)
        parameters = {member.name: member for member in members(self.body).values()}
        for name in reversed(dict.fromkeys([*self.arguments, *parameters])):
            if name not in self.fixed:
                command = self._parameter(parameters[name])(command)
        make = click.command if self.group is None else self.group.command
        made: click.Command = make(say.__name__.replace("_", "-"), help=say.__doc__)(command)
        return made

    def _parameter(self, member: Attribute[Any]) -> Callable[..., Any]:
        name, kind = member.name, self.types.get(member.name)
        if name in self.arguments:
            shown = f"[{self.arguments[name]}]" if self.reads else self.arguments[name]
            metavar = None if isinstance(kind, click.Choice) else shown
            return click.argument(name, metavar=metavar, type=kind, required=not self.reads)
        text, flag = self.helps.get(name), member.type is bool
        if name == "reason" and text is None:
            return with_reason
        option = f"--{self.options.get(name, name.rstrip('_').replace('_', '-'))}"
        default = None if isinstance(kind, click.Choice) else member.default
        return click.option(option, name, type=kind, is_flag=flag, default=default, help=text)

    def _request(self, arguments: Arguments) -> dict[str, Any]:
        """Return the body without members that have their default."""
        values = {**self.fixed, **arguments, **{name: arguments[name]["id"] for name in self.find}}
        return {
            key: values[member.name]
            for key, member in members(self.body).items()
            if values.get(member.name) not in (None, member.default)
        }

"""Requests that commands send to the running metagame in the name of the host's owner."""

from __future__ import annotations

import getpass
import http.client
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import click
from attrs import Attribute, field, frozen

from svcserver.ctl.host import REASON, Host, host_command
from svcserver.ctl.output import Failed, Out, fail
from svcserver.kernel import json
from svcserver.kernel.machine import SIGNING_KEY, machine_headers
from svcserver.kernel.shapes import members
from svcserver.kernel.system import epoch
from svcserver.stack.components import metagame_url

ANSWER_S = 5.0
ACT_S = 60.0  # a game server may end slowly
UNPROVEN = (
    "the metagame refuses the key and this machine's ticket: run this on the metagame's machine, "
    "with its metagame.env; if the signing key there was changed, restart the metagame"
)
MAX_ANSWER = 16 * 1024 * 1024


class NobodyListens(Failed):
    """The error for a refused connection. No request was sent, so it is safe to try again."""


def get_json(
    base: str, path: str, headers: dict[str, str], what: str, nothing: tuple[int, ...] = ()
) -> Any:
    """Return the JSON body of a 200 reply, or None if the reply's status is in ``nothing``.

    Raises Failed for any other reply. ``what`` is the service's name, for error messages.
    """
    status, body = _exchange(base, "GET", path, headers, what, ANSWER_S)
    if status in nothing:
        return None
    if status == 404:  # every component knows these paths
        fail(_unexplained(base, path, status, what))
    if status != 200:
        fail(_refusal(status, body) or _unexplained(base, path, status, what))
    return _parsed(base, body, what)


def post_json(base: str, path: str, headers: dict[str, str], body: Any, what: str) -> Any:
    """Post ``body`` and return the JSON of the reply; raises Failed unless the request succeeds."""
    sent = {**headers, "Content-Type": "application/json"}
    status, reply = _exchange(base, "POST", path, sent, what, ACT_S, json.dump(body))
    if status != 200:
        fail(_refusal(status, reply) or _unexplained(base, path, status, what))
    return _parsed(base, reply, what) if reply else {}


def _refusal(status: int, body: bytes) -> str:
    """Return the reason in an error reply, or "" without one; for a 401, return a fixed message."""
    if status == 401:
        return UNPROVEN
    try:
        message = json.parse(body)
    except json.BadJson:
        return ""
    return str(message.get("message") or "") if isinstance(message, dict) else ""


def _unexplained(base: str, path: str, status: int, what: str) -> str:
    """Return a message for an error reply that gives no reason."""
    text = f"{what} answered {status} to {path}"
    return f"{text}: {foreign(base)}" if status in (403, 404) else text


def _exchange(
    base: str,
    method: str,
    path: str,
    headers: dict[str, str],
    what: str,
    patience_s: float,
    body: bytes | None = None,
) -> tuple[int, bytes]:
    """Send a request; return the reply's status and body, or raise Failed if there is no reply."""
    url = urlsplit(base)
    try:
        port = url.port or 80
    except ValueError:
        fail(
            f"{what} cannot be reached at {base}, because the value of PORT is not a port number."
            " Run svcctl doctor."
        )
    connection = http.client.HTTPConnection(url.hostname or "", port, timeout=patience_s)
    try:
        connection.request(method, path, body, headers)
        with connection.getresponse() as reply:
            return reply.status, reply.read(MAX_ANSWER)
    except (OSError, http.client.HTTPException) as why:
        line = f"{what} does not answer on {base}: {why or type(why).__name__}; is it running?"
        if isinstance(why, ConnectionRefusedError):
            raise NobodyListens(f"{line} svcctl up starts the host") from None
        raise Failed(line) from None
    finally:
        connection.close()


def _parsed(base: str, body: bytes, what: str) -> Any:
    try:
        return json.parse(body)
    except json.BadJson:
        fail(f"the reply from {base} is not a JSON reply of {what}: {foreign(base)}")


def foreign(base: str) -> str:
    """Return the likely cause of a reply that did not come from the expected component."""
    port = urlsplit(base).port or 80
    return (
        f"another program uses port {port}. Find the program with ss -ltnp 'sport = :{port}'. "
        "Stop the program, or change PORT."
    )


Reply = dict[str, Any]
Arguments = dict[str, Any]

KEY = "x-svc-user-api-key"
WHAT = "the metagame"


def actor() -> str:
    """Return the name of this machine's user, for the audit log."""
    try:
        return f"svcctl:{getpass.getuser()}"
    except (KeyError, OSError):
        return "svcctl"


@frozen
class Owner:
    """A client that calls the dashboard's routes with tickets, an account key, or both.

    With ``secret``, the host's signing key, the client makes a ticket for each request, which then
    needs no second factor. The client also sends ``key``, an account key, in case the metagame does
    not accept the ticket.
    """

    base: str
    secret: str = field(repr=False)  # the signing key; empty where there is none
    key: str = field(default="", repr=False)

    def get(self, route: str, **query: str) -> Any:
        """Return the reply to ``GET /svc/api/ROUTE``; raises Failed."""
        return self._get(route, query)

    def find(self, route: str, *, nothing: tuple[int, ...] = (404,), **query: str) -> Any:
        """Return the reply to ``GET /svc/api/ROUTE``, or None if its status is in ``nothing``."""
        return self._get(route, query, nothing)

    def post(self, route: str, body: dict[str, Any], reason: str = "") -> Any:
        """Return the reply to ``POST /svc/api/ROUTE``; raises Failed."""
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
    """Return a client that calls the dashboard's routes with this account key, without tickets."""
    return Owner(metagame_url(host.variables("metagame")), "", key)


def owner_of(host: Host) -> Owner:
    """Return a client that acts as the host's owner.

    Raises Failed if the host has neither a signing key nor the file ``owner.key``.
    """
    variables = host.variables("metagame")
    secret, key = variables.get(SIGNING_KEY, "").strip(), host.owner_key() or ""
    if not secret and not key:
        fail(
            "This command needs the owner's rights. Give --config with a folder that contains "
            "the file owner.key."
        )
    return Owner(metagame_url(variables), secret, key)


@frozen
class Act:
    """A decorator for a command that sends ``POST /svc/api/ROUTE`` to the running metagame.

    Each member of the route's ``body`` becomes an option of the command, unless it is in
    ``arguments`` or ``fixed``. ``arguments`` maps members to the names of positional arguments in
    the help. ``fixed`` maps members to their fixed values. The decorated function turns the reply
    into output lines, and its docstring is the command's help.
    """

    route: str
    body: type[Any]
    arguments: Mapping[str, str]
    group: click.Group | None = None
    data: Callable[[Reply], Reply] = lambda reply: reply  # for --json
    fixed: Mapping[str, Any] = field(factory=dict)
    helps: Mapping[str, str] = field(factory=dict)
    options: Mapping[str, str] = field(factory=dict)  # names of options, if not the members'
    types: Mapping[str, click.ParamType[Any]] = field(factory=dict)
    more: Sequence[Callable[..., Any]] = ()  # decorators for further options
    reads: bool = False  # without arguments and options, send GET to the same route
    find: Mapping[str, Callable[[Owner, str], Reply]] = field(factory=dict)
    """For members that are ids: functions that look up the name in the argument."""
    send: Callable[[Owner, Callable[[], Reply], Arguments], Reply] = lambda _, act, __: act()
    """Calls the function that sends the request, and can wait before or after that."""
    offline: Callable[[Host, Arguments], Reply] | None = None
    """Makes the change in the database while no metagame runs, and returns the route's reply."""

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

        command: Callable[..., Any] = run
        for decorate in self.more:
            command = decorate(command)
        members_of = {member.name: member for member in members(self.body).values()}
        names = [*dict.fromkeys([*self.arguments, *members_of])]
        parameters = [self._parameter(members_of[name]) for name in names if name not in self.fixed]
        name = say.__name__.replace("_", "-")
        return host_command(self.group, name, params=parameters, help=say.__doc__)(command)

    def _parameter(self, member: Attribute[Any]) -> click.Parameter:
        name, kind = member.name, self.types.get(member.name)
        if name in self.arguments:
            shown = f"[{self.arguments[name]}]" if self.reads else self.arguments[name]
            metavar = None if isinstance(kind, click.Choice) else shown
            return click.Argument([name], metavar=metavar, type=kind, required=not self.reads)
        text, flag = self.helps.get(name), member.type is bool
        if name == "reason" and text is None:
            return REASON
        option = f"--{self.options.get(name, name.rstrip('_').replace('_', '-'))}"
        default = None if isinstance(kind, click.Choice) else member.default
        return click.Option([option, name], type=kind, is_flag=flag, default=default, help=text)

    def _request(self, arguments: Arguments) -> dict[str, Any]:
        """Return the request body without members that have their default value."""
        values = {**self.fixed, **arguments, **{name: arguments[name]["id"] for name in self.find}}
        return {
            key: values[member.name]
            for key, member in members(self.body).items()
            if values.get(member.name) not in (None, member.default)
        }

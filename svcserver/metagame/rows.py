"""The metagame's access labels, callers, calls and routes, built on ``web.routes``.

    class GreetingRoutes:
        routes = Routes(coded)

        @routes.row("PUT", "/greeting", access=Access.PLAYER, body=GreetingRequest, reply=Greeting)
        async def save(self, call: Call[GreetingRequest]) -> Answer: ...

``access/gate.py`` reads the access label and other fields of each route.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, Generic

from attrs import define, field, frozen
from typing_extensions import TypeVar

from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Forbidden
from svcserver.kernel.roles import Role
from svcserver.metagame.once import ONLY, Again, Attempt
from svcserver.web import routes as web
from svcserver.web.request import HttpRequest

B = TypeVar("B", default=Any)


class Access(StrEnum):
    """The credential that a route needs. Spec: 1 §4 access labels."""

    NONE = "none"
    TOKEN = "token"  # noqa: S105 - a label, not a secret
    PLAYER = "player"
    OPTIONAL_TOKEN = "optional token"  # noqa: S105
    ACCOUNT_KEY = "account key"
    ADMIN_KEY = "admin key"
    REGISTERED = "registered"
    GAME_SERVER = "game-server key"
    ADMIN_OR_GAME_SERVER = "admin key, or game-server key"
    NODE = "node"  # the certificate of a node of the fleet
    DIRECT = "direct"  # no proxy and no credential: the page that asks for the key


@frozen
class Caller(web.WebCaller):
    """The caller of a request, with what the gate has verified about the caller."""

    account: AccountId | None = None
    game_server: bool = False
    admin: bool = False
    bearer: str = field(default="", repr=False)  # the player token as sent
    name: str = ""  # the account's name, if the request had an account key
    role: Role = Role.PLAYER  # the account's role, if the request had an account key
    node: str = ""  # the machine of the game server, if it is not this one
    acts_for: frozenset[AccountId] | None = None  # the only accounts it may name; None for all


NOBODY = Caller()


READS = ("GET", "HEAD")  # the gateway gives these requests no id


@define(eq=False)  # not frozen: one is made for every request
class Call(web.WebCall[B, Caller], Generic[B]):
    """A handler's argument: the verified caller, the request and the parsed body."""

    @property
    def player(self) -> AccountId:
        """The caller's account; raises Forbidden for a game server without a player token."""
        if self.caller.account is None:
            raise Forbidden("this needs a player")
        return self.caller.account

    @property
    def attempt(self) -> Attempt:
        """The id that the gateway gave this request, and the attempt's number; see ``once``."""
        return self.request.attempt or ONLY


@frozen
class Row(web.WebRow):
    """One route of the game, with the fields that ``access/gate.py`` checks."""

    own: bool = False  # with real progression, a player may name only their own <user_id>
    real_only: bool = False  # exists only for accounts with real progression
    game_server: bool = False  # with real progression, only a game server may write
    public: bool = False  # a management route that the gateway lets through
    signs_in: bool = False  # the key is enough: the route itself asks for the second factor
    role: Role = Role.OWNER  # the lowest role whose admin key is enough
    owners: tuple[tuple[str, str], ...] = ()  # (argument, value) pairs that need an owner's key
    again: Again | None = None  # the effect of a second attempt; None if the method only reads

    def __attrs_post_init__(self) -> None:
        if self.again is None and self.method not in READS:
            raise TypeError(
                f'{self.name} lacks the argument "again", which says how a repeated request '
                "is handled"
            )

    def least(self, request: HttpRequest) -> Role:
        """Return the lowest staff role that may send this request."""
        if any(request.argument(name) == value for name, value in self.owners):
            return Role.OWNER
        return self.role

    @property
    def tells(self) -> bool:
        """Return whether the audit log lists the route's refusals; true for staff routes."""
        return self.access in (Access.ADMIN_KEY, Access.ADMIN_OR_GAME_SERVER)

    @property
    def hides(self) -> bool:
        """Return whether the route answers 404 to accounts with fixed progression."""
        return self.real_only


class Routes(web.WebRoutes[Row]):
    """The routes of one feature of the game."""

    make: ClassVar[type[web.WebRow]] = Row

    def row(self, method: str, path: str, **marks: Any) -> Callable[[web.H], web.H]:
        """Register the decorated method as a route; ``marks`` are the other fields of ``Row``."""
        if method in READS:
            marks.setdefault("again", None)
        return super().row(method, path, **marks)

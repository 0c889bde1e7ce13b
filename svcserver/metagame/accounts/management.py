"""The owner's side of accounts: registration, invites, names. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, NotRequired, TypedDict

from attrs import field, frozen
from sqlalchemy import Connection
from twisted.logger import Logger

from svcserver.db.ledger import Ledger
from svcserver.db.shield import shielded
from svcserver.kernel.ids import AccountId
from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Malformed, Refusal, TooMany
from svcserver.kernel.signals import Renamed, Signal
from svcserver.metagame.access.tokens import Tokens
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.entries import AccountEntry, entry
from svcserver.metagame.accounts.registration import Registration
from svcserver.metagame.accounts.rules import NewAccount
from svcserver.metagame.accounts.store import SqlAccounts
from svcserver.web.routes import (
    BAD_JSON,
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Routes,
    bare,
    worded,
)

log = Logger()

PAGE = 100
MAX_OFFSET = 10_000_000


class RegisterReply(TypedDict):
    """The only copy of the account key."""

    UUK: str


class RegisterWish(TypedDict):
    """A new account; the code where registration wants one."""

    Username: str
    InviteCode: NotRequired[str | None]


class ModeWish(TypedDict):
    """One of the registration modes."""

    RegistrationStatus: Literal["OPEN", "INVITECODE", "NONE"]


class RenameWish(TypedDict):
    """Who, by id or by name, and the new name."""

    UserId: NotRequired[str]
    Username: NotRequired[str]
    NewUsername: str


class TokenWish(TypedDict):
    """Whose token."""

    UserId: str


class UserInfo(TypedDict):
    """An account as its holder sees it."""

    UserId: str
    Username: str
    IsAdmin: bool


class ModeReply(TypedDict, total=False):
    """Nothing while no mode is set."""

    RegistrationMode: str


class NameReply(TypedDict):
    """Why not, where the name is not free."""

    available: bool
    error: NotRequired[str]
    message: NotRequired[str]


class UserEntry(TypedDict):
    """An account in the list of all."""

    Username: str
    UserId: str


class AllUsers(TypedDict):
    """By name."""

    Users: list[UserEntry]


class AccountPage(TypedDict):
    """Up to 100 by id, and where the next begin; null on the last page."""

    accounts: list[AccountEntry]
    nextOffset: int | None


class RenameReply(TypedDict):
    """The name before and the name now."""

    UserId: str
    OldUsername: str
    Username: str


class PlayerToken(TypedDict):
    """A player token for 24 hours."""

    JWT: str


Also = Callable[[Connection, AccountId, str], None]


def register_refusal(status: int, refusal: Refusal) -> Answer:
    """``{error, message}``, but a bare 500 for the owner's own mistake."""
    return Answer(status) if isinstance(refusal, rules.ServerFault) else worded(status, refusal)


@frozen
class AccountManagement:
    """Registration and accounts under ``/svc/api``.

    ``also_rename`` run in the transaction of a rename, with account id and new name.
    ``busy`` says how long an address must wait before another costly read (seconds, 0 none).
    """

    routes: ClassVar[Routes] = Routes(bare)
    ledger: Ledger
    tokens: Tokens
    registration: Registration
    now: Callable[[], float]
    renamed: Signal[Renamed] = field(factory=Signal)
    also_rename: Sequence[Also] = ()
    busy: Callable[[str], float] = field(default=lambda address: 0.0)

    @routes.row(
        "GET", "/svc/api/RegistrationStatus", access=Access.NONE, reply=ModeReply, public=True
    )
    async def registration_status(self, call: Call) -> Answer:
        """The mode; ``{}`` when none is set."""
        mode = self.registration.mode
        return Answer(200, EMPTY_OBJECT if mode is None else {"RegistrationMode": mode})

    @routes.row(
        "POST",
        "/svc/api/RegistrationStatus",
        access=Access.ADMIN_KEY,
        body=object,
        sends=ModeWish,
        reply=ModeReply,
    )
    async def set_registration_status(self, call: Call) -> Answer:
        """Change the mode until the next restart."""
        mode = members(call.body).get("RegistrationStatus")
        if mode not in rules.MODES:
            raise Malformed("unknown registration mode")
        self.registration.mode = mode
        log.info("registration is now {mode}", mode=mode)
        return Answer(200, {"RegistrationMode": mode})

    @routes.row(
        "POST",
        "/svc/api/Register",
        access=Access.NONE,
        body=object,
        sends=RegisterWish,
        reply=RegisterReply,
        refuse=register_refusal,
        bad_json=BAD_JSON,
        public=True,
    )
    async def register(self, call: Call) -> Answer:
        """A new account; the reply holds the only copy of its key."""
        sent = members(call.body)
        code = sent.get("InviteCode")
        if code is not None and not isinstance(code, str):
            raise Malformed("InviteCode must be a text", code="bad_request")
        name = rules.username(sent.get("Username"))
        mode = rules.open_for(self.registration.mode)

        def work(tx: Connection) -> NewAccount:
            return rules.register(SqlAccounts(tx), mode, name, code, self.now())

        created = await self.ledger.write(work)
        log.info("registered {username}", username=name, account=created.account.id)
        reply: RegisterReply = {"UUK": created.key}
        return Answer(200, reply)

    @routes.row(
        "GET",
        "/svc/api/UsernameAvailable",
        access=Access.NONE,
        reply=NameReply,
        query=("Username",),
    )
    async def username_available(self, call: Call) -> Answer:
        """Always 200; rules and existing accounts only."""
        try:
            name = rules.username(call.request.argument("Username") or "")
        except Malformed as why:
            return Answer(
                200, {"available": False, "error": "username_invalid", "message": why.message}
            )
        if await self.ledger.read(lambda tx: SqlAccounts(tx).name_is_taken(name)):
            message = "another account has this name"
            return Answer(200, {"available": False, "error": "username_taken", "message": message})
        return Answer(200, {"available": True})

    @routes.row(
        "GET",
        "/svc/api/GetUserInfo",
        access=Access.ACCOUNT_KEY,
        reply=UserInfo,
        public=True,
    )
    async def user_info(self, call: Call) -> Answer:
        """The account of the key."""
        reply: UserInfo = {
            "UserId": call.player,
            "Username": call.caller.name,
            "IsAdmin": call.caller.admin,
        }
        return Answer(200, reply)

    @routes.row("GET", "/svc/api/GetAllUsers", access=Access.ADMIN_KEY, reply=AllUsers, quiet=True)
    async def all_users(self, call: Call) -> Answer:
        """Every account's name and id."""
        everyone = await self.ledger.read(lambda tx: SqlAccounts(tx).everyone())
        users = [{"Username": one.username, "UserId": one.id} for one in everyone]
        return Answer(200, {"Users": users})

    @routes.row(
        "GET",
        "/svc/api/DashboardAccounts",
        access=Access.ADMIN_KEY,
        reply=AccountPage,
        query=("offset",),
        quiet=True,
    )
    async def dashboard_accounts(self, call: Call) -> Answer:
        """Up to 100 accounts by id, from ``?offset=``; never a whole hash."""
        wait = self.busy(call.request.peer)
        if wait > 0:
            raise TooMany(retry_after_s=max(1, round(wait)))
        offset = _offset(call.request.argument("offset"))
        page = await self.ledger.read(lambda tx: SqlAccounts(tx).page(offset, PAGE + 1))
        accounts = [
            entry(one.id, one.username, one.is_admin, key_hash) for one, key_hash in page[:PAGE]
        ]
        after = offset + PAGE if len(page) > PAGE else None
        reply = {"accounts": accounts, "nextOffset": after}
        return Answer(200, reply, {"Cache-Control": "no-store"})

    @routes.row(
        "POST",
        "/svc/api/RenameUser",
        access=Access.ADMIN_KEY,
        body=object,
        sends=RenameWish,
        reply=RenameReply,
        refuse=worded,
        bad_json=BAD_JSON,
    )
    async def rename(self, call: Call) -> Answer:
        """Rename an account and its characters together."""
        sent = members(call.body)
        account_id, current, new = (sent.get(key) for key in ("UserId", "Username", "NewUsername"))
        if not isinstance(new, str) or not (
            isinstance(account_id, str) or isinstance(current, str)
        ):
            raise Malformed("UserId or Username, and NewUsername", code="bad_request")
        by_id = account_id if isinstance(account_id, str) else None
        before, after = await self._rename(by_id, current, rules.username(new))
        said = {"UserId": after.id, "OldUsername": before.username, "Username": after.username}
        return Answer(200, said)

    @shielded
    async def _rename(
        self, by_id: AccountId | None, current: Any, name: str
    ) -> tuple[rules.Account, rules.Account]:
        def work(tx: Connection) -> tuple[rules.Account, rules.Account]:
            before, after = rules.rename(SqlAccounts(tx), by_id, current, name)
            for also in self.also_rename:
                also(tx, after.id, after.username)
            return before, after

        before, after = await self.ledger.write(work)
        self.renamed.send(Renamed(after.id, after.username))
        log.info("renamed {old} to {new}", old=before.username, new=name, account=after.id)
        return before, after

    @routes.row(
        "POST",
        "/svc/api/GenerateJWTForUserId",
        access=Access.ADMIN_KEY,
        body=object,
        sends=TokenWish,
        reply=PlayerToken,
    )
    async def player_token(self, call: Call) -> Answer:
        """A 24-hour player token for any id; the id is not checked."""
        account_id = members(call.body).get("UserId")
        if not isinstance(account_id, str) or not account_id:
            raise Malformed("UserId must be a text")
        found = await self.ledger.read(lambda tx: SqlAccounts(tx).find(account_id))
        if found is not None:
            self.tokens.epochs.learn(found.id, found.tokens_not_before)
        log.warn("an admin took a player token for {account}", account=account_id)
        return Answer(200, {"JWT": self.tokens.sign(account_id)})


def members(body: Json) -> dict[str, Any]:
    """A JSON object's members; raises bad_request for any other body."""
    if not isinstance(body, dict):
        raise Malformed("the body must be a JSON object", code="bad_request")
    return body


def _offset(text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 8) or int(text) > MAX_OFFSET:
        raise Malformed("offset must be a whole number up to 10000000")
    return int(text)

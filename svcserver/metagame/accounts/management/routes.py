"""Account routes for owner and launcher. Spec: 2 §4 Management API; /launcher is an extension."""

from collections.abc import Callable, Iterator
from typing import ClassVar

from attrs import frozen

from svcserver.kernel.refusals import Refusal
from svcserver.kernel.roles import Role
from svcserver.metagame.access.readlimit import ReadLimit
from svcserver.metagame.accounts import rules
from svcserver.metagame.accounts.management import wire
from svcserver.metagame.accounts.management.acts import AccountActs, Also
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.recorded import by_staff
from svcserver.metagame.accounts.wire import read_offset
from svcserver.metagame.once import Again
from svcserver.metagame.refusal_wire import WordedRefusal
from svcserver.metagame.replies import BAD_JSON, worded
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.web.refusals import worded_as
from svcserver.web.request import HttpRequest
from svcserver.web.routes import NO_STORE, Answer, Feature, bare

ADMIN = Access.ADMIN_KEY


@worded_as(WordedRefusal, bare_too=(403, 429))
def refuse_registration(status: int, refusal: Refusal) -> Answer:
    """Return the reply to a refused registration: a body ``{error, message}``.

    If REGISTRATION_MODE is invalid, the reply is a 500 without a body.
    """
    return Answer(status) if isinstance(refusal, rules.ServerFault) else worded(status, refusal)


@frozen
class AccountManagementRoutes:
    """The routes for registration and accounts, used by owners and the launcher."""

    routes: ClassVar[Routes] = Routes(bare, access=ADMIN)
    acts: AccountActs
    reads: ReadLimit
    network_of: Callable[[HttpRequest], str]

    @routes.row(
        "GET", "/svc/api/RegistrationStatus", access=Access.NONE, reply=wire.ModeReply, public=True
    )
    async def registration_status(self, call: Call) -> Answer:
        """Show the registration mode: OPEN, INVITECODE, or NONE. If no mode is set, show ``{}``."""
        return Answer(200, wire.show_mode(await self.acts.registration.mode()))

    @routes.row(
        "POST",
        "/svc/api/RegistrationStatus",
        body=wire.ModeRequest,
        reply=wire.ModeReply,
        again=Again.NEVER,
    )
    async def set_registration_status(self, call: Call[wire.ModeRequest]) -> Answer:
        """Change the registration mode until the next restart."""
        await self.acts.set_mode(by_staff(call, "registration mode"), call.body.registration_status)
        return Answer(200, wire.show_mode(call.body.registration_status))

    @routes.row(
        "POST",
        "/svc/api/Register",
        access=Access.NONE,
        body=wire.RegisterRequest,
        reply=wire.RegisterReply,
        refuse=refuse_registration,
        refusals={500: None},  # for an invalid REGISTRATION_MODE
        bad_json=BAD_JSON,
        public=True,
        again=Again.NEVER,
    )
    async def register(self, call: Call[wire.RegisterRequest]) -> Answer:
        """Register an account; the reply holds the only copy of its key."""
        name = rules.username(call.body.username)
        network = self.network_of(call.request)
        created = await self.acts.register(name, call.body.invite_code, network)
        return Answer(200, {"UUK": created.key})

    @routes.row(
        "GET",
        "/svc/api/UsernameAvailable",
        access=Access.NONE,
        reply=wire.NameReply,
        query={"Username": str},
    )
    async def username_available(self, call: Call) -> Answer:
        """Check whether a username is available; the reply is always 200."""
        username = call.request.argument("Username") or ""
        return Answer(200, wire.show_free(await self.acts.why_not_free(username)))

    @routes.row(
        "POST",
        "/launcher/name-free",
        access=Access.NONE,
        body=wire.RegisterRequest,
        reply=wire.NameReply,
        refuse=refuse_registration,
        refusals={500: None},  # for an invalid REGISTRATION_MODE
        bad_json=BAD_JSON,
        again=Again.NATURAL,
    )
    async def name_free(self, call: Call[wire.RegisterRequest]) -> Answer:
        """Check whether a player with this invite could register this name; if not, say why."""
        sent, network = call.body, self.network_of(call.request)
        why = await self.acts.why_not(sent.username, sent.invite_code, network)
        return Answer(200, wire.show_free(why), NO_STORE)

    @routes.row(
        "POST",
        "/launcher/invite",
        access=Access.NONE,
        body=wire.InviteQuestion,
        reply=wire.InviteReply,
        refuse=refuse_registration,
        refusals={500: None},  # for an invalid REGISTRATION_MODE
        bad_json=BAD_JSON,
        again=Again.NATURAL,
    )
    async def invite(self, call: Call[wire.InviteQuestion]) -> Answer:
        """Check whether an invite code can be used, is used up, has expired, or is unknown."""
        network = self.network_of(call.request)
        reply: wire.InviteReply = {
            "invite": await self.acts.invite_state(call.body.invite_code, network)
        }
        return Answer(200, reply, NO_STORE)

    @routes.row(
        "GET", "/svc/api/GetUserInfo", access=Access.ACCOUNT_KEY, reply=wire.UserInfo, public=True
    )
    async def user_info(self, call: Call) -> Answer:
        """Show the account that has the key in the header; ``IsAdmin`` is true for owners."""
        who = call.caller
        admin = who.role is Role.OWNER  # the account's role, even if this key is only a game key
        reply: wire.UserInfo = {"UserId": call.player, "Username": who.name, "IsAdmin": admin}
        return Answer(200, reply)

    @routes.row("GET", "/svc/api/GetAllUsers", role=Role.HELPER, reply=wire.AllUsers, quiet=True)
    async def all_users(self, call: Call) -> Answer:
        """List every account's name and id."""
        return Answer(200, wire.show_users(await self.acts.everyone()))

    @routes.row(
        "GET",
        "/svc/api/DashboardAccounts",
        role=Role.HELPER,
        reply=wire.AccountPage,
        query={"offset": int},
        quiet=True,
    )
    async def dashboard_accounts(self, call: Call) -> Answer:
        """List up to 100 accounts in id order, starting at ``?offset=``."""
        await self.reads.take(call.request.peer)
        offset = read_offset(call.request.argument("offset"))
        accounts = await self.acts.page(offset, wire.PAGE + 1)
        return Answer(200, wire.show_page(accounts, offset), NO_STORE)

    @routes.row(
        "POST",
        "/svc/api/RenameUser",
        body=wire.RenameRequest,
        reply=wire.RenameReply,
        refuse=worded,
        bad_json=BAD_JSON,
        again=Again.NEVER,
    )
    async def rename(self, call: Call[wire.RenameRequest]) -> Answer:
        """Rename an account and its characters together."""
        sent = call.body.checked()
        name = rules.username(sent.new_username)
        entry = by_staff(call, "rename", sent.username or sent.user_id or "")
        done = await self.acts.rename(entry, sent.user_id, sent.username, name)
        return Answer(200, wire.show_rename(*done))

    @routes.row(
        "POST",
        "/svc/api/GenerateJWTForUserId",
        body=wire.TokenRequest,
        reply=wire.PlayerToken,
        again=Again.NEVER,
    )
    async def player_token(self, call: Call[wire.TokenRequest]) -> Answer:
        """Make a 24-hour player token for any account id, even if no account has this id."""
        entry = by_staff(call, "player token", call.body.account_id)
        return Answer(200, {"JWT": await self.acts.player_token(entry, call.body.account_id)})


def management(parts: Parts, *also_rename: Also) -> Iterator[Feature]:
    """Yield the account routes; ``also_rename`` is called in the transaction of a rename."""
    acts = AccountActs(
        parts.ledger,
        parts.tokens,
        parts.registration,
        parts.wall_clock,
        parts.audit,
        parts.networks,
        parts.news.renamed,
        also_rename=also_rename,
    )
    yield AccountManagementRoutes(acts, ReadLimit(parts.board), parts.network_of)

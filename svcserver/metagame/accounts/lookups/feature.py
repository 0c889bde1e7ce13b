"""The client's account look-ups: data shapes and routes. Spec: 1 §4 Login and accounts."""

import re
from collections.abc import Callable, Collection, Iterator
from typing import Annotated, ClassVar, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.envelope import Empty, Envelope
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Missing
from svcserver.kernel.shapes import (
    Lenient,
    Moment,
    OrEmpty,
    Skipping,
    TextWithNul,
    camel_case,
    sent_as,
    spelled,
    text_where,
)
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.parts import Parts
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.once import Again
from svcserver.metagame.replies import enveloped
from svcserver.metagame.rows import Access, Call, Routes
from svcserver.metagame.settings import MetagameSettings
from svcserver.web.routes import EMPTY_OBJECT, Answer, Feature, bare

MAX_IDS = 100
NO_NAME: Empty = {}  # used while names are hidden
NATIVE, FOREIGN = "native", "extidp"
_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
AskedId = Annotated[str, text_where(lambda text: 1 <= len(text) <= 128, "an id")]
Ids = Skipping[AskedId]
MaybeText = Lenient[TextWithNul | None]


class PublicAccount(TypedDict):
    """The part of an account that any logged-in player may see."""

    id: str
    displayName: str
    externalAuths: Empty


class OwnAccount(TypedDict):
    """The caller's own record; a game server without a player token gets no ``id``."""

    id: NotRequired[str]
    displayName: str | Empty
    name: str
    lastName: str
    email: str
    failedLoginAttempts: int
    lastLogin: Moment
    numberOfDisplayNameChanges: int
    ageGroup: str
    headless: bool
    country: str
    lastNameChange: Moment
    preferredLanguage: str
    canUpdateDisplayName: bool
    tfaEnabled: bool
    emailVerified: bool
    minorVerified: bool
    minorStatus: str


@spelled(camel_case)
@frozen
class MappingRequest:
    """A request to map account ids to another type; clients differ in the keys that they send."""

    src_account_type: MaybeText = None
    type: MaybeText = None
    external_auth_type: MaybeText = None
    ids: Lenient[Ids | None] = None
    external_ids: Lenient[Ids | None] = None
    account_ids: Lenient[Ids | None] = None
    external_auth_ids: Lenient[Ids | None] = None


class MappedAccount(TypedDict):
    """The account that a requested id maps to."""

    accountId: str
    accountType: str


class Mappings(TypedDict):
    """The account of each requested id; unknown ids are left out."""

    accountMappings: dict[str, MappedAccount]


class MappingReply(Mappings):
    """The account of each requested id, both in the payload and at the top level.

    Some clients read the payload, other clients read the top level.
    """

    code: str
    message: str
    payload: Mappings


class Crossplay(TypedDict):
    """The switches for cross-play and for cross-platform progress."""

    crossplay: bool
    crossprogression: bool


class Linked(TypedDict):
    """The link of an account to a game store."""

    isLinked: bool


class Tags(TypedDict):
    """The tags of the calling account."""

    accountId: str | None
    tags: list[str]


@frozen
class PublicInfoRequest:
    """The account to look up, by id or name; the id takes precedence unless it is empty."""

    account_id: Lenient[TextWithNul] = field(default="", metadata=sent_as("accountId"))
    displayname: MaybeText = None
    display_name: MaybeText = field(default=None, metadata=sent_as("displayName"))

    @property
    def name(self) -> str | None:
        return self.display_name if self.displayname is None else self.displayname


class LinkedAccount(TypedDict):
    """The link to another log-in provider; ``accountId`` is the account's id on this host."""

    accountId: str | None
    accountType: str


class PublicInfo(TypedDict):
    """The public information about the account that was looked up."""

    accountId: str | None
    username: str
    linkedAccounts: list[LinkedAccount]
    isSubscribed: bool
    language: None


class AccountInfo(TypedDict):
    """The caller's id and name; all other values are constant."""

    accountId: str | None
    creationDate: str
    email: None
    preferredLanguage: None
    username: str
    verified: bool


def public(account: Account) -> PublicAccount:
    """Return the part of an account that any logged-in player may see."""
    return {"id": account.id, "displayName": account.username, "externalAuths": {}}


def own_record(account_id: str | None, name: str | Empty, at: float) -> OwnAccount:
    """Return the caller's own record; most values are constant. ``at`` is in epoch seconds."""
    now = iso(at)
    record: OwnAccount = {
        "displayName": name,
        "name": "",
        "lastName": "",
        "email": "",
        "failedLoginAttempts": 0,
        "lastLogin": now,
        "numberOfDisplayNameChanges": 0,
        "ageGroup": "ADULT",
        "headless": False,
        "country": "US",
        "lastNameChange": now,
        "preferredLanguage": "en",
        "canUpdateDisplayName": False,
        "tfaEnabled": False,
        "emailVerified": True,
        "minorVerified": False,
        "minorStatus": "NOT_MINOR",
    }
    return record if account_id is None else {"id": account_id, **record}


def info(account_id: str | None, username: str) -> AccountInfo:
    """Return the body of ``/accountinfo``; everything except id and name is constant."""
    return {
        "accountId": account_id,
        "creationDate": "2000-01-01 00:00:00",
        "email": None,
        "preferredLanguage": None,
        "username": username,
        "verified": True,
    }


def public_info(account_id: str | None, named: Account | None) -> PublicInfo:
    """Return the body of ``/accountinfo/public``; everything except id and name is constant."""
    return {
        "accountId": account_id,
        "username": "" if named is None else named.username,
        "linkedAccounts": [{"accountId": account_id, "accountType": FOREIGN}],
        "isSubscribed": True,
        "language": None,
    }


def ids_of(sent: MappingRequest | tuple[str, ...]) -> list[str]:
    """Return up to 100 distinct ids of a mapping request, in any of its formats."""
    if isinstance(sent, MappingRequest):
        forms = (sent.ids, sent.external_ids, sent.account_ids, sent.external_auth_ids)
        sent = next((ids for ids in forms if ids is not None), ())
    return list(dict.fromkeys(sent))[:MAX_IDS]


def source_type(sent: MappingRequest | tuple[str, ...]) -> str:
    """Return the source account type of a mapping request."""
    if not isinstance(sent, MappingRequest):
        return FOREIGN
    forms = (sent.src_account_type, sent.type, sent.external_auth_type)
    kind = next((text for text in forms if text is not None), FOREIGN)
    return kind if _TYPE.match(kind) else FOREIGN


def show_mappings(ids: list[str], known: Collection[str], source: str) -> MappingReply:
    """Return the reply, in which each known account id maps to itself.

    The type of the mapped id is FOREIGN if ``source`` is NATIVE, and NATIVE otherwise.
    """
    account_type = FOREIGN if source.lower() == NATIVE else NATIVE
    mappings: dict[str, MappedAccount] = {
        account_id: {"accountId": account_id, "accountType": account_type}
        for account_id in ids
        if account_id in known
    }
    return {
        "accountMappings": mappings,
        "code": "OK",
        "message": "",
        "payload": {"accountMappings": mappings},
    }


@frozen
class LookupRoutes:
    """The routes for account records, names and id mappings."""

    routes: ClassVar[Routes] = Routes(bare, access=Access.TOKEN, again=Again.NATURAL)
    settings: MetagameSettings
    directory: Directory
    wall_clock: Callable[[], float]

    @routes.row(
        "GET",
        "/account/api/public/account",
        reply=OwnAccount | list[PublicAccount],
        query={"accountId": list[str]},
    )
    async def accounts(self, call: Call) -> Answer:
        """Show the caller's own account, or up to 100 accounts named by ``?accountId=``."""
        if ids := call.request.arguments("accountId"):
            wanted = list(dict.fromkeys(ids[:MAX_IDS]))
            accounts = await self.directory.accounts(wanted)
            return Answer(200, [public(accounts[i]) for i in wanted if i in accounts])
        me, is_shown = call.caller.account, self.settings.account_display_name
        name = await self._name(me) if is_shown else NO_NAME
        return Answer(200, own_record(me, name, self.wall_clock()))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>",
        access=Access.OPTIONAL_TOKEN,
        reply=PublicAccount | Empty,
    )
    async def account(self, call: Call, account_id: str) -> Answer:
        """Show an account, or ``{}`` if the account is unknown or the request has no token."""
        account = await self._visible(call.caller.account, account_id)
        return Answer(200, EMPTY_OBJECT if account is None else public(account))

    @routes.row(
        "GET",
        "/account/api/public/account/displayName/<name>",
        access=Access.OPTIONAL_TOKEN,
        reply=PublicAccount,
    )
    async def by_name(self, call: Call, name: str) -> Answer:
        """Find an account by username, ignoring case."""
        me = call.caller.account
        account = None if me is None else await self.directory.account_named(name)
        if account is None:
            raise Missing("no such account")
        return Answer(200, public(account))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>/externalAuths",
        access=Access.NONE,
        reply=Empty,
    )
    async def external_auths(self, call: Call, account_id: str) -> Answer:
        """List the account's log-ins with other providers; the list is always empty."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/account/mapping",
        access=Access.OPTIONAL_TOKEN,
        body=MappingRequest | Ids,
        reply=MappingReply,
        body_log=True,
    )
    async def mapping(self, call: Call[MappingRequest | tuple[str, ...]]) -> Answer:
        """Map account ids between the game's own type and a log-in provider's type.

        On this host, an account has the same id in both types, so each id maps to itself.
        """
        is_on = call.caller.account is not None and self.settings.account_mapping
        ids = ids_of(call.body) if is_on else []
        accounts = await self.directory.accounts(ids) if ids else {}
        return Answer(200, show_mappings(ids, accounts, source_type(call.body)))

    @routes.row("GET", "/features/platform/win", access=Access.NONE, reply=Envelope[Crossplay])
    async def features(self, call: Call) -> Answer:
        """Show the feature flags; cross-play and cross-platform progress are always on."""
        return enveloped({"crossplay": True, "crossprogression": True})

    @routes.row(
        "GET", "/account/link/epic/<account_id>", access=Access.NONE, reply=Envelope[Linked]
    )
    async def linked(self, call: Call, account_id: str) -> Answer:
        """Show the account as linked to a game store, without a check."""
        return enveloped({"isLinked": True})

    @routes.row("GET", "/accountinfo", reply=AccountInfo)
    async def info(self, call: Call) -> Answer:
        """Show the caller's id and username."""
        me = call.caller.account
        return Answer(200, info(me, await self._name(me)))

    @routes.row("GET", "/tags", reply=Tags)
    async def tags(self, call: Call) -> Answer:
        """List the caller's tags; the list is always empty."""
        reply: Tags = {"accountId": call.caller.account, "tags": []}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/accountinfo/public",
        body=OrEmpty[PublicInfoRequest],
        reply=PublicInfo,
        refusals={404: Empty},
        body_log=True,
    )
    async def public_info(self, call: Call[PublicInfoRequest]) -> Answer:
        """Look up an account by id or name; every logged-in player may look up any account."""
        wanted, account = call.body, None
        if wanted.account_id:
            account = await self.directory.account_of_id(wanted.account_id)
        elif wanted.name is not None:
            account = await self.directory.account_named(wanted.name)
        if self.settings.accountinfo_public_legacy:
            return Answer(200, public_info(call.caller.account, account))
        if account is None:
            return Answer(404, EMPTY_OBJECT)
        return Answer(200, public_info(account.id, account))

    async def _visible(self, me: AccountId | None, account_id: AccountId | None) -> Account | None:
        """Return the account with that id, or None if the caller sent no player token."""
        if me is None or account_id is None:
            return None
        return await self.directory.account_of_id(account_id)

    async def _name(self, me: AccountId | None) -> str:
        """Return the caller's own name, or "" if the caller has no account."""
        account = await self._visible(me, me)
        return "" if account is None else account.username


def lookups(parts: Parts) -> Iterator[Feature]:
    """Yield the routes that look up accounts by name and id."""
    yield LookupRoutes(parts.settings, parts.directory, parts.wall_clock)

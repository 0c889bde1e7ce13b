"""Who is who, as the client asks it. Spec: 1 §4 Login and accounts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar, NotRequired, TypedDict

from attrs import frozen

from svcserver.kernel.json import Json
from svcserver.kernel.refusals import Missing
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.directory import Directory
from svcserver.metagame.accounts.rules import Account
from svcserver.metagame.settings import Settings
from svcserver.web.routes import (
    EMPTY_OBJECT,
    Access,
    Answer,
    Call,
    Envelope,
    Routes,
    bare,
    enveloped,
)

MAX_IDS = 100
NATIVE, FOREIGN = "native", "extidp"
_TYPE = re.compile(r"[A-Za-z0-9_.-]{1,32}\Z")
_ID_KEYS = ("ids", "externalIds", "accountIds", "externalAuthIds")
_TYPE_KEYS = ("srcAccountType", "type", "externalAuthType")


class PublicAccount(TypedDict):
    """What anyone logged in may see of an account."""

    id: str
    displayName: str
    externalAuths: dict[str, Json]


class OwnAccount(TypedDict):
    """The caller's own record; ``id`` is left out for a game server alone."""

    id: NotRequired[str]
    displayName: str | dict[str, Json]
    name: str
    lastName: str
    email: str
    failedLoginAttempts: int
    lastLogin: str
    numberOfDisplayNameChanges: int
    ageGroup: str
    headless: bool
    country: str
    lastNameChange: str
    preferredLanguage: str
    canUpdateDisplayName: bool
    tfaEnabled: bool
    emailVerified: bool
    minorVerified: bool
    minorStatus: str


class MappingWish(TypedDict):
    """Ids to map, in the newest form or an older one; a bare list of ids is taken, too."""

    srcAccountType: NotRequired[str]
    type: NotRequired[str]
    externalAuthType: NotRequired[str]
    ids: NotRequired[list[str]]
    externalIds: NotRequired[list[str]]
    accountIds: NotRequired[list[str]]
    externalAuthIds: NotRequired[list[str]]


class MappedAccount(TypedDict):
    """What an asked id stands for."""

    accountId: str
    accountType: str


class Mappings(TypedDict):
    """By asked id; ids that are no accounts are left out."""

    accountMappings: dict[str, MappedAccount]


class MappingReply(Mappings):
    """The mappings twice: the client reads those at the root."""

    code: str
    message: str
    payload: Mappings


class Crossplay(TypedDict):
    """What the platform lets players share."""

    crossplay: bool
    crossprogression: bool


class Linked(TypedDict):
    """Whether the account is linked."""

    isLinked: bool


class Tags(TypedDict):
    """The caller's tags."""

    accountId: str | None
    tags: list[str]


class PublicInfoWish(TypedDict):
    """Whom to look up; an id that is not empty wins."""

    accountId: NotRequired[str]
    displayname: NotRequired[str]


class LinkedAccount(TypedDict):
    """Another of the account's names."""

    accountId: str | None
    accountType: str


class PublicInfo(TypedDict):
    """The account that was looked up."""

    accountId: str | None
    username: str
    linkedAccounts: list[LinkedAccount]
    isSubscribed: bool
    language: None


class AccountInfo(TypedDict):
    """The caller's own short record."""

    accountId: str | None
    creationDate: str
    email: None
    preferredLanguage: None
    username: str
    verified: bool


@frozen
class Lookups:
    """Account records, names and mappings."""

    routes: ClassVar[Routes] = Routes(bare)
    settings: Settings
    directory: Directory
    now: Callable[[], float]

    @routes.row(
        "GET",
        "/account/api/public/account",
        access=Access.TOKEN,
        reply=OwnAccount | list[PublicAccount],
        query=("accountId",),
    )
    async def accounts(self, call: Call) -> Answer:
        """The caller's own record, or those of ``?accountId=`` (at most 100)."""
        asked = call.request.arguments("accountId")
        if asked:
            wanted = list(dict.fromkeys(asked[:MAX_IDS]))
            found = await self.directory.accounts(wanted)
            return Answer(200, [public(found[one]) for one in wanted if one in found])
        own = call.caller.account
        account = await self.directory.account_of_id(own) if own is not None else None
        return Answer(200, self._own_record(own, account.username if account else ""))

    def _own_record(self, account_id: str | None, name: str) -> OwnAccount:
        now = iso(self.now())
        record: OwnAccount = {
            "displayName": name if self.settings.account_display_name else {},
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

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>",
        access=Access.OPTIONAL_TOKEN,
        reply=PublicAccount | dict,
    )
    async def account(self, call: Call, account_id: str) -> Answer:
        """One account; ``{}`` when unknown or without a token."""
        found = await self._seen(call, account_id)
        return Answer(200, EMPTY_OBJECT if found is None else public(found))

    async def _seen(self, call: Call, account_id: str) -> Account | None:
        if call.caller.account is None:
            return None
        return await self.directory.account_of_id(account_id)

    @routes.row(
        "GET",
        "/account/api/public/account/displayName/<name>",
        access=Access.OPTIONAL_TOKEN,
        reply=PublicAccount,
    )
    async def by_name(self, call: Call, name: str) -> Answer:
        """An account by username, in any case."""
        found = None
        if call.caller.account is not None:
            found = await self.directory.account_named(name)
        if found is None:
            raise Missing("no such account")
        return Answer(200, public(found))

    @routes.row(
        "GET",
        "/account/api/public/account/<account_id>/externalAuths",
        access=Access.NONE,
        reply=dict,
    )
    async def external_auths(self, call: Call, account_id: str) -> Answer:
        """Nobody has any."""
        return Answer(200, EMPTY_OBJECT)

    @routes.row(
        "POST",
        "/account/mapping",
        access=Access.OPTIONAL_TOKEN,
        body=object,
        sends=MappingWish | list[str],
        reply=MappingReply,
        body_log=True,
    )
    async def mapping(self, call: Call) -> Answer:
        """Map ids to themselves; the root is an object keyed by each asked id."""
        mappings: dict[str, MappedAccount] = {}
        if call.caller.account is not None and self.settings.account_mapping:
            wanted = asked_ids(call.body)
            found = await self.directory.accounts(wanted)
            other = FOREIGN if source_type(call.body).lower() == NATIVE else NATIVE
            mappings = {
                one: {"accountId": one, "accountType": other} for one in wanted if one in found
            }
        reply: MappingReply = {
            "accountMappings": mappings,
            "code": "OK",
            "message": "",
            "payload": {"accountMappings": mappings},
        }
        return Answer(200, reply)

    @routes.row("GET", "/features/platform/win", access=Access.NONE, reply=Envelope[Crossplay])
    async def features(self, call: Call) -> Answer:
        """Crossplay and crossprogression are on."""
        return enveloped({"crossplay": True, "crossprogression": True})

    @routes.row(
        "GET", "/account/link/epic/<account_id>", access=Access.NONE, reply=Envelope[Linked]
    )
    async def linked(self, call: Call, account_id: str) -> Answer:
        """Every account counts as linked."""
        return enveloped({"isLinked": True})

    @routes.row("GET", "/accountinfo", access=Access.TOKEN, reply=AccountInfo)
    async def info(self, call: Call) -> Answer:
        """The caller's id and username."""
        own = call.caller.account
        account = await self.directory.account_of_id(own) if own is not None else None
        reply: AccountInfo = {
            "accountId": own,
            "creationDate": "2000-01-01 00:00:00",
            "email": None,
            "preferredLanguage": None,
            "username": account.username if account else "",
            "verified": True,
        }
        return Answer(200, reply)

    @routes.row("GET", "/tags", access=Access.TOKEN, reply=Tags)
    async def tags(self, call: Call) -> Answer:
        """Nobody has any."""
        reply: Tags = {"accountId": call.caller.account, "tags": []}
        return Answer(200, reply)

    @routes.row(
        "POST",
        "/accountinfo/public",
        access=Access.TOKEN,
        body=object,
        sends=PublicInfoWish,
        reply=PublicInfo,
        body_log=True,
    )
    async def public_info(self, call: Call) -> Answer:
        """Any logged-in player may look up any account, by id or by name."""
        found = await self._asked(call.fields)
        if self.settings.accountinfo_public_legacy:
            name = found.username if found is not None else ""
            return Answer(200, info_reply(call.caller.account, name))
        if found is None:
            return Answer(404, EMPTY_OBJECT)
        return Answer(200, info_reply(found.id, found.username))

    async def _asked(self, body: dict[str, Any]) -> Account | None:
        account_id = body.get("accountId")
        if isinstance(account_id, str) and account_id:
            return await self.directory.account_of_id(account_id)
        for key in ("displayname", "displayName"):
            if isinstance(body.get(key), str):
                return await self.directory.account_named(body[key])
        return None


def public(account: Account) -> PublicAccount:
    """What anyone logged in may see."""
    return {"id": account.id, "displayName": account.username, "externalAuths": {}}


def info_reply(account_id: str | None, username: str) -> PublicInfo:
    """The body of ``/accountinfo/public``."""
    return {
        "accountId": account_id,
        "username": username,
        "linkedAccounts": [{"accountId": account_id, "accountType": FOREIGN}],
        "isSubscribed": True,
        "language": None,
    }


def asked_ids(body: Json) -> list[str]:
    """The ids a mapping asks for, in the newest or any older form; at most 100, each once."""
    lists = [body] if isinstance(body, list) else [body.get(key) for key in _ID_KEYS]
    found = next((one for one in lists if isinstance(one, list)), [])
    texts = [one for one in found if isinstance(one, str) and 1 <= len(one) <= 128]
    return [one for one in dict.fromkeys(texts)][:MAX_IDS]


def source_type(body: Json) -> str:
    """The account type a mapping asks from."""
    sent = [body.get(key) for key in _TYPE_KEYS] if isinstance(body, dict) else []
    kind = next((one for one in sent if isinstance(one, str)), FOREIGN)
    return kind if _TYPE.match(kind) else FOREIGN

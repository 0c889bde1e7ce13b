"""Request and reply shapes of account look-ups. Spec: 1 §4 Login and accounts."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, NotRequired, TypedDict

from attrs import field, frozen

from svcserver.kernel.envelope import Empty
from svcserver.kernel.shapes import (
    Lenient,
    Moment,
    Skipping,
    TextWithNul,
    camel_case,
    sent_as,
    spelled,
    text_where,
)
from svcserver.kernel.times import iso
from svcserver.metagame.accounts.rules import Account

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
    """The caller's own record; it has no ``id`` if a game server sends no player token."""

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
class MappingWish:
    """Account ids to map, in the newest or an older format; a plain list of ids is valid, too."""

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
    """The mapped accounts by requested id; ids without an account are left out."""

    accountMappings: dict[str, MappedAccount]


class MappingReply(Mappings):
    """The accounts by id, both in the payload and at the top level.

    Some clients read the payload, others the top level.
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
class PublicInfoWish:
    """The account to look up, by id or name; the id takes precedence unless it is empty."""

    account_id: Lenient[TextWithNul] = field(default="", metadata=sent_as("accountId"))
    displayname: MaybeText = None
    display_name: MaybeText = field(default=None, metadata=sent_as("displayName"))

    @property
    def name(self) -> str | None:
        return self.display_name if self.displayname is None else self.displayname


class LinkedAccount(TypedDict):
    """The account itself, in the form of a linked account of another provider."""

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
    """The caller's own short record."""

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


def ids_of(sent: MappingWish | tuple[str, ...]) -> list[str]:
    """Return up to 100 distinct ids of a mapping request, in any of its formats."""
    if isinstance(sent, MappingWish):
        forms = (sent.ids, sent.external_ids, sent.account_ids, sent.external_auth_ids)
        sent = next((ids for ids in forms if ids is not None), ())
    return list(dict.fromkeys(sent))[:MAX_IDS]


def source_type(sent: MappingWish | tuple[str, ...]) -> str:
    """Return the source account type of a mapping request."""
    if not isinstance(sent, MappingWish):
        return FOREIGN
    forms = (sent.src_account_type, sent.type, sent.external_auth_type)
    kind = next((text for text in forms if text is not None), FOREIGN)
    return kind if _TYPE.match(kind) else FOREIGN


def show_mappings(ids: list[str], known: Collection[str], source: str) -> MappingReply:
    """Return the reply that maps each known account id to itself, with the opposite type."""
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

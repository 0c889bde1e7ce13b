"""Accounts in the owner's lists. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.digits import whole_in
from svcserver.kernel.ids import AccountId
from svcserver.kernel.refusals import Malformed

MAX_OFFSET = 10_000_000
MAX_DIGITS = 8
FINGERPRINT = 16  # characters of a key's hash


class AccountEntry(TypedDict):
    """An account in an admin's list, with a part of its key's hash."""

    id: str
    name: str
    admin: bool
    keyFingerprint: str | None


def entry(account_id: AccountId, name: str, admin: bool, key_hash: str | None) -> AccountEntry:
    """The entry of an account."""
    return {
        "id": account_id,
        "name": name,
        "admin": admin,
        "keyFingerprint": None if key_hash is None else key_hash[:FINGERPRINT],
    }


def read_offset(asked: str | None) -> int:
    """The offset of a page of accounts; raises Malformed."""
    if asked is None:
        return 0
    offset = whole_in(asked, MAX_DIGITS)
    if offset is None or offset > MAX_OFFSET:
        raise Malformed("offset must be a whole number up to 10000000")
    return offset

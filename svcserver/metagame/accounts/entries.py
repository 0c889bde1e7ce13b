"""Accounts in the owner's lists. Spec: 2 §4 Management API."""

from __future__ import annotations

from typing import TypedDict

from svcserver.kernel.ids import AccountId

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

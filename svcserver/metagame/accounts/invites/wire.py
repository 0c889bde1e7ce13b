"""Request and reply shapes of invite codes. Spec: 2 §4 Management API."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict

from attrs import field, frozen

from svcserver.kernel.shapes import Count, Lenient, pascal_case, sent_as, spelled, whole
from svcserver.metagame.accounts.rules import Invite
from svcserver.metagame.accounts.wire import Reason

MAX_USES = 1_000


@frozen
class InviteWish:
    """A code to create; the name is a note for the log."""

    uses: Annotated[int, whole(1, MAX_USES)] = 1
    name: str = ""
    reason: Reason = field(default="", metadata=sent_as("Reason"))


@spelled(pascal_case)
@frozen
class CodeWish:
    """A code of the owner's choice; ``Uses`` counts unless they are infinite."""

    new_invite_code: str
    uses: Lenient[Count] = 0
    infinite_uses: bool = False
    reason: Reason = ""


class CodeEntry(TypedDict):
    """A code and its remaining uses."""

    inviteCode: str
    usesRemaining: int
    infiniteUses: bool


class CodeList(TypedDict):
    """Every invite code."""

    InviteCodes: list[CodeEntry]


class NewCode(TypedDict):
    """A new invite code."""

    code: str


def show_codes(invites: Iterable[Invite]) -> CodeList:
    """The reply with every code."""
    return {
        "InviteCodes": [
            {
                "inviteCode": one.code,
                "usesRemaining": one.uses_remaining,
                "infiniteUses": one.infinite_uses,
            }
            for one in invites
        ]
    }

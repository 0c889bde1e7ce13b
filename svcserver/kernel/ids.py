"""The creation of identifiers, and their formats."""

import re

from svcserver.kernel.system import uuid4

ACCOUNT_SHAPE = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")

AccountId = str
CharacterId = str


def new_account_id() -> AccountId:
    """Return ``UID-`` and a random UUID; the id is not a secret. Spec: 1 §2 Account."""
    return f"UID-{uuid4()}"


def new_id() -> str:
    """Return a random UUID as a string."""
    return str(uuid4())


def is_account_shaped(text: object) -> bool:
    """Return whether ``text`` has the format of an account id."""
    return isinstance(text, str) and ACCOUNT_SHAPE.match(text) is not None

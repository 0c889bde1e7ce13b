"""Hosts in these tests get a copy of a migrated database, and keys of earlier tests: both are slow.

No test gets the same key twice.
"""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from svcserver.db import migrations
from tests.support import migrated

_generate = rsa.generate_private_key
_made: dict[tuple[int, int], list[rsa.RSAPrivateKey]] = defaultdict(list)  # by exponent and size


@pytest.fixture(autouse=True)
def _copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new host a copy of the database; tests/db tests the migrations themselves."""
    monkeypatch.setattr(migrations, "_run", migrated.copy)


@pytest.fixture(autouse=True)
def _keys_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each test the keys that were generated for earlier tests, then new keys."""
    unused: dict[tuple[int, int], Iterator[rsa.RSAPrivateKey]] = {}

    def generate(public_exponent: int, key_size: int) -> rsa.RSAPrivateKey:
        kind = public_exponent, key_size
        key = next(unused.setdefault(kind, iter([*_made[kind]])), None)
        if key is None:
            key = _generate(public_exponent, key_size)
            _made[kind].append(key)
        return key

    monkeypatch.setattr(rsa, "generate_private_key", generate)

"""The keyed hash by which a process knows an entry on the engine as written by its own host."""

from __future__ import annotations

from hashlib import blake2b

from attrs import field, frozen

from svcserver.kernel.secrets import constant_time_equal

TAG = 16  # bytes


@frozen
class Seal:
    """Seals by a key that all workers of a host have and the engine has not."""

    key: bytes = field(repr=False)

    def close(self, name: bytes, stamp: bytes, value: bytes) -> bytes:
        """The hash of the entry and its value: under another name or stamp it is no entry."""
        return self._tag(name, stamp, value) + value

    def open(self, name: bytes, stamp: bytes, sealed: bytes) -> bytes:
        """The value; raises ValueError where this host has not written it under this name."""
        value = sealed[TAG:]
        if not constant_time_equal(self._tag(name, stamp, value), sealed[:TAG]):
            raise ValueError("this host has not written it")
        return value

    def _tag(self, name: bytes, stamp: bytes, value: bytes) -> bytes:
        entry = b"%d %b%b%b" % (len(name), name, stamp, value)
        return blake2b(entry, key=self.key, digest_size=TAG).digest()  # half the time of an HMAC

"""A fast replacement for age's passphrase encryption.

The library deliberately takes a second for each encryption. The replacement writes the same format,
which the library can decrypt.
"""

import hmac
import os
from base64 import b64encode
from hashlib import scrypt, sha256

from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

WORK = 4  # the binary logarithm of the passes; the library takes 18 and more
CHUNK = 1 << 16  # bytes that are encrypted together
VERSION = b"age-encryption.org/v1"


def encrypt(clear: bytes, passphrase: str) -> bytes:
    """Encrypt like ``pyrage.passphrase.encrypt``, but with a cheap key derivation."""
    salt, nonce, key = os.urandom(16), os.urandom(16), os.urandom(16)
    words = passphrase.encode()
    stored = scrypt(words, salt=VERSION + b"/scrypt" + salt, n=1 << WORK, r=8, p=1, dklen=32)
    wrapped = ChaCha20Poly1305(stored).encrypt(bytes(12), key, None)
    lines = VERSION, b"-> scrypt %s %d" % (_base64(salt), WORK), _base64(wrapped), b"---"
    head = b"\n".join(lines)
    tag = hmac.digest(_derived(key, b"", b"header"), head, sha256)
    return head + b" " + _base64(tag) + b"\n" + nonce + _body(clear, key, nonce)


def _body(clear: bytes, key: bytes, nonce: bytes) -> bytes:
    by = ChaCha20Poly1305(_derived(key, nonce, b"payload"))
    starts = range(0, len(clear), CHUNK) or range(1)
    return b"".join(
        by.encrypt(number.to_bytes(11) + bytes([at == starts[-1]]), clear[at : at + CHUNK], None)
        for number, at in enumerate(starts)
    )


def _derived(key: bytes, salt: bytes, info: bytes) -> bytes:
    return HKDF(SHA256(), 32, salt, info).derive(key)


def _base64(data: bytes) -> bytes:
    return b64encode(data).rstrip(b"=")

"""The text to send to a friend with an invite, and fingerprints written as words."""

from collections.abc import Mapping

from svcserver.edge.invite import Invite
from svcserver.kernel import datafiles

# 256 short words, easy to distinguish on the telephone; one for each byte value
_WORDS: list[str] = datafiles.read_json("svcserver.edge", "words.json")["words"]
SHOWN_BYTES = 8  # of the fingerprint, as words: nobody can make a certificate with the same 64 bits


def fingerprint_words(fingerprint: str) -> str:
    """Return the first eight bytes of a fingerprint as words that two people can compare."""
    return " ".join(_WORDS[byte] for byte in bytes.fromhex(fingerprint)[:SHOWN_BYTES])


def certificate_words(fingerprint: str, upcoming: str) -> str:
    """Return both fingerprints as words (see ``fingerprint_words``); ``upcoming`` may be empty."""
    return " ".join(fingerprint_words(value) for value in (fingerprint, upcoming) if value)


def host_words(invite: Invite) -> str:
    """Return the fingerprints in the invite as words, or "" if the host is private."""
    if not invite.public:
        return ""
    return certificate_words(invite.fingerprint, invite.next_fingerprint)


def sentences(
    invite: Invite, address: str = "", checksums: Mapping[str, str] | None = None
) -> list[str]:
    """Return three sentences to put before an invite; they tell a friend how to join.

    ``address`` is the URL where the host offers the launcher, or empty. ``checksums`` maps the name
    of each launcher file to the SHA-256 of that file, or to "" if the SHA-256 is not known.
    """
    where = f"from {address}, or from me" if address else "from me"
    known = [(name, checksum) for name, checksum in (checksums or {}).items() if checksum]
    if len(known) == 1:
        where += f" (its SHA-256 is {known[0][1]})"
    elif known:
        listed = ", and of ".join(f"{name} is {checksum}" for name, checksum in known)
        where += f" (the SHA-256 of {listed})"
    inside = "" if invite.public else ", and join my private network"
    return [
        f"I run a host for our game, {invite.name}: get the launcher {where}{inside}.",
        "Start it, and paste the line below, which is for you alone.",
        f"It shows {'sixteen' if invite.next_fingerprint else 'eight'} words, which must be these: "
        f"{host_words(invite)}."
        if invite.public
        else f"It shows the address {invite.host}:{invite.port}, and then asks for your name.",
    ]

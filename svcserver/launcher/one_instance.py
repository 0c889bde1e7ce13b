"""The rule that only one launcher runs. A second launcher sends its invite to the first, and exits.

The running launcher holds a lock, which the system releases when the launcher ends or is killed.
"""

import hashlib
import hmac
import http.client
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from attrs import field, frozen

from svcserver.kernel import json
from svcserver.kernel.secrets import Secret, hex_token
from svcserver.kernel.system import system
from svcserver.launcher.private_files import write_private

FILE, LOCK = "running.json", "running.lock"
PATIENCE_S = 3.0
LONGEST_ANSWER = 4096
LONGEST_LINK = 4096  # characters; an invite is shorter
WAIT_S, PAUSE_S = 20.0, 0.1  # for a launcher that is starting or ending


class LauncherUnresponsive(Exception):
    """The error when another launcher holds the lock, but does not answer."""


@frozen
class Lock:
    """The lock of the running launcher; ``release`` lets another launcher run."""

    file: BinaryIO

    def release(self) -> None:
        """Release the lock; does nothing if it is already released."""
        self.file.close()


def try_lock(state: Path) -> Lock | None:
    """Return the lock, or None if another launcher holds it; raises OSError."""
    file = (state / LOCK).open("ab")
    if _is_held(file.fileno()):
        file.close()
        return None
    return Lock(file)


def _is_held(descriptor: int) -> bool:
    """Try to lock the file; return whether another program already holds the lock."""
    if sys.platform == "win32":
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:  # Wine sets various error numbers
            return True
    else:
        import fcntl

        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:  # no locks on this file system: a second launcher may then run
            return False
    return False


def lock_or_hand_over(
    state: Path,
    invite: str,
    pause: Callable[[float], None] = time.sleep,  # noqa: TID251 - no reactor runs yet
) -> Lock | str:
    """Return the lock, or the link to the page of a launcher that already runs.

    The invite is sent to the running launcher; if that launcher refuses it, the link is empty.
    Raises LauncherUnresponsive and OSError.
    """
    until = system().monotonic() + WAIT_S
    while (lock := try_lock(state)) is None:
        running = find(state)
        link = running.hand_over(invite) if running is not None else None
        if link is not None:
            return link
        if system().monotonic() >= until:
            raise LauncherUnresponsive
        pause(PAUSE_S)
    return lock


@frozen
class RunningLauncher:
    """The launcher that is already running."""

    port: int
    secret: Secret = field(repr=False)

    def hand_over(self, invite: str) -> str | None:
        """Send an invite to the running launcher; ``invite`` is "" if there is no invite.

        Returns the link to the launcher's page, "" if the launcher refuses the invite, or None if
        it does not answer.
        """
        text = invite[:LONGEST_LINK].encode(errors="replace").decode()
        body = {"secret": self.secret.reveal(), "invite": text}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            if not self._is_ours(connection):
                return None
            _, reply = _ask(connection, "/api/hand-over", body)
        except (OSError, http.client.HTTPException):
            return None
        except json.BadJson:
            return ""
        finally:
            connection.close()
        return self.own_link(reply) or ""

    def end(self) -> bool:
        """Ask the running launcher to end; return False if it refuses, because a game runs."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            if not self._is_ours(connection):
                return True
            status, _ = _ask(connection, "/api/end", {"secret": self.secret.reveal()})
        except (OSError, http.client.HTTPException, json.BadJson):
            return True
        finally:
            connection.close()
        return status == 200

    def _is_ours(self, connection: http.client.HTTPConnection) -> bool:
        """Return whether the program at the port can prove that it knows the secret.

        If the launcher was killed, another program may use the port by now. That program must not
        get the invite, so this check is made before the invite is sent.
        """
        nonce = hex_token(64)
        try:
            status, reply = _ask(connection, "/api/running", {"nonce": nonce})
        except json.BadJson:
            return False
        proof = reply.get("proof") if isinstance(reply, dict) else None
        if status != 200 or not isinstance(proof, str) or connection.sock is None:
            return False  # http.client would reconnect, perhaps to another program
        return Secret(proof_of(self.secret, nonce)).matches(proof)

    def own_link(self, reply: object) -> str | None:
        """Return the link in a reply, or None if the link does not lead to the launcher's own port.

        The reply may come from another program that uses the launcher's port now.
        """
        link = reply.get("link") if isinstance(reply, dict) else None
        own = f"http://127.0.0.1:{self.port}/#"
        return link if isinstance(link, str) and link.startswith(own) else None


def _ask(connection: http.client.HTTPConnection, path: str, body: object) -> tuple[int, object]:
    connection.request("POST", path, json.dump(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.parse(answer.read(LONGEST_ANSWER))


def proof_of(secret: Secret, nonce: str) -> str:
    """Return a proof of knowing ``secret``, valid only for this ``nonce``."""
    key, text = secret.reveal().encode(), b"svc-launcher runs " + nonce.encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def find(state: Path) -> RunningLauncher | None:
    """Read the file that ``announce`` wrote; return the launcher it describes, or None.

    That launcher may no longer run, because a killed launcher does not delete the file.
    """
    try:
        data = json.parse((state / FILE).read_bytes())
    except (OSError, json.BadJson):
        return None
    if not isinstance(data, dict):
        return None
    port, secret = data.get("port"), data.get("secret")
    if type(port) is not int or not 0 < port < 65536 or not isinstance(secret, str):
        return None
    return RunningLauncher(port, Secret(secret))


def announce(state: Path, port: int) -> Secret:
    """Write the file that describes this launcher; return the secret in the file."""
    secret = hex_token(64)
    write_private(state / FILE, json.dump({"port": port, "secret": secret, "pid": os.getpid()}))
    return Secret(secret)


def withdraw(state: Path) -> None:
    """Delete the file that ``announce`` wrote."""
    (state / FILE).unlink(missing_ok=True)

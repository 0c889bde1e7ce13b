"""The export of an account key to another PC, in a private file that also names the host."""

from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from svcserver.edge.invite import is_host, is_private_host, is_server_name
from svcserver.kernel import json
from svcserver.kernel.secrets import Secret
from svcserver.launcher.accounts import KEY, NAME
from svcserver.launcher.host_list import HostRecord, id_at
from svcserver.launcher.private_files import write_private

MOST = 64 * 1024  # bytes of a key file
MOST_FILES = 100  # maximum files of one host in a folder; the last one is overwritten
_HEX = frozenset("0123456789abcdef")


class BadKeyFile(ValueError):
    """The error for a file without an exported account key; its text is the reason."""


@frozen
class KeyFile:
    """The content of an exported key file: host, player name and account key."""

    record: HostRecord
    key: Secret = field(repr=False)


def write_key_file(folder: Path, record: HostRecord, key: Secret) -> Path:
    """Write the key for ``record``'s host to a file in ``folder``; return the file's path.

    An existing file with another key is kept, because it may hold the only copy of that key. The
    new file's name then gets a number. When ``MOST_FILES`` files exist, the last is overwritten.
    """
    data = {
        "name": record.name,
        "host": record.host,
        "port": record.port,
        "fingerprint": record.fingerprint,
        "fingerprint2": record.next_fingerprint,
        "username": record.username,
        "key": key.reveal(),
    }
    content = json.dump(data) + b"\n"
    path, number = folder / f"svc-key-{record.id}.json", 1
    while path.exists() and path.read_bytes() != content and number < MOST_FILES:
        number += 1
        path = folder / f"svc-key-{record.id}-{number}.json"
    write_private(path, content)
    return path


def read_key_file(path: Path) -> KeyFile:
    """Return the key and host in the file at ``path``, or raise BadKeyFile or OSError."""
    with path.open("rb") as file:
        return parse_key_file(file.read(MOST + 1))


def parse_key_file(content: bytes) -> KeyFile:
    """Return the key and host in a file's bytes, or raise BadKeyFile."""
    if len(content) > MOST:
        raise BadKeyFile("too long")
    try:
        data = json.parse(content)
    except json.BadJson as error:
        raise BadKeyFile("no JSON") from error
    if not isinstance(data, dict):
        raise BadKeyFile("it has no host")
    return KeyFile(_record(data), Secret(_text(data, "key", KEY.match)))


def _record(data: dict[str, Any]) -> HostRecord:
    host, port = _text(data, "host", is_host), data.get("port")
    if type(port) is not int or not 0 < port < 65536:
        raise BadKeyFile("port")
    record = HostRecord(id_at(host, port), _text(data, "name", is_server_name), host, port)
    fingerprint = _text(data, "fingerprint", _is_fingerprint)
    if not fingerprint and not is_private_host(host):
        raise BadKeyFile(
            "a host on the internet needs a fingerprint"
        )  # otherwise the key is sent unencrypted
    return evolve(
        record,
        fingerprint=fingerprint,
        next_fingerprint=_text(data, "fingerprint2", _is_fingerprint),
        username=_text(data, "username", NAME.match),
    )


def _is_fingerprint(text: str) -> bool:
    return not text or (len(text) == 64 and _HEX.issuperset(text))


def _text(data: dict[str, Any], name: str, is_good: Any) -> str:
    value = data.get(name)
    if not isinstance(value, str) or not is_good(value):
        raise BadKeyFile(name)
    return value

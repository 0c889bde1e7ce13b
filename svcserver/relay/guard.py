"""Refuses requests to the relay that the local game did not send.

Stricter than ``http.crosssite``: the game is no browser, and calls loopback by one of three
names. Spec: 2 §4 Launcher relay.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from svcserver.http.crosssite import LOOPBACK_HOST, LOOPBACK_ORIGIN, is_loopback


@frozen
class Denial:
    """A refusal: status, code, and the reason for the log."""

    status: int
    code: str
    reason: str


def of_fields(headers: Sequence[tuple[bytes, bytes, bytes]], upgrade: bytes) -> Denial | None:
    """What the fields alone are refused for; ``headers`` as (sent name, lower name, value)."""
    hosts, origins, fetched = _tell_tales(headers)
    if len(hosts) != 1 or not LOOPBACK_HOST.fullmatch(hosts[0]):
        return Denial(403, "forbidden", "host")
    if not all(LOOPBACK_ORIGIN.fullmatch(origin) for origin in origins):
        return Denial(403, "forbidden", "origin")
    if fetched and not upgrade:
        return Denial(403, "forbidden", "sec_fetch")
    return None


def refusal(
    peer: str, method: bytes, target: bytes, upgrade: bytes, fields: Denial | None
) -> Denial | None:
    """Why a request is refused, or None; ``fields`` is what ``of_fields`` said of its own."""
    if not is_loopback(peer):
        return Denial(403, "forbidden", "peer")
    if fields is not None:
        return fields
    if not target.startswith(b"/"):
        return Denial(400, "bad_request", "target")
    if upgrade and (upgrade != b"websocket" or method != b"GET"):
        return Denial(400, "bad_request", "upgrade")
    return None


def _tell_tales(
    headers: Sequence[tuple[bytes, bytes, bytes]],
) -> tuple[list[bytes], list[bytes], bool]:
    """Every Host, every Origin, and whether there is a Sec-Fetch header, which browsers send."""
    hosts: list[bytes] = []
    origins: list[bytes] = []
    fetched = False
    for _, name, value in headers:
        if name == b"host":
            hosts.append(value)
        elif name == b"origin":
            origins.append(value)
        elif name.startswith(b"sec-fetch-"):
            fetched = True
    return hosts, origins, fetched

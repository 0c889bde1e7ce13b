"""The machines of a fleet that run game servers for this host, and their certificates.

The host is its own small certificate authority. ``nodes.json`` has the fingerprint of each node's
certificate, and only those certificates are accepted. So a node is revoked when it is removed from
the file. The metagame looks for changes twice a second.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, fields_dict, frozen
from cryptography.x509.oid import ExtendedKeyUsageOID

from svcserver.edge.certificate import (
    BadCertificate,
    Pair,
    check_pair,
    make_authority,
    make_pair,
    read_pair,
    write_pair_to,
)
from svcserver.edge.invite import is_host
from svcserver.kernel import json
from svcserver.kernel.disk import replace_json
from svcserver.kernel.secrets import Secret
from svcserver.kernel.system import epoch

FOLDER = "fleet"
LIST = "nodes.json"
MAX_NODES = 1_000
MAX_CREDENTIAL = 16 * 1024  # bytes of an agent's file
_NODE = re.compile(r"[a-z0-9]{1,63}\Z")


class BadFleet(Exception):
    """The error for an unusable file of the fleet, or for a bad value in such a file.

    ``str()`` gives the cause and the remedy.
    """


@frozen
class FleetNode:
    """A machine that may run game servers."""

    id: str  # the node's id in the swarm
    address: str  # for the owner: players' address at the time of ``issued_at``
    fingerprint: str  # of its certificate
    issued_at: int  # epoch seconds
    engine_address: str = ""  # the address that its requests come from; "" in older lists


def _node(entry: dict[str, Any]) -> FleetNode:
    """Read an entry of the list; ignore fields that a later version has added."""
    return FleetNode(**{name: entry[name] for name in fields_dict(FleetNode) if name in entry})


@frozen
class Credential:
    """The content of an agent's credential file: the node's certificate and the host's address."""

    node: str
    host: str
    port: int
    fingerprint: str  # of the host's certificate
    certificate: str
    key: Secret = field(repr=False)

    @property
    def pair(self) -> Pair:
        return Pair(self.certificate.encode(), self.key.reveal().encode())

    @classmethod
    def parse(cls, content: bytes) -> Credential:
        """Parse the bytes that ``FleetFolder.issue`` returned; raises BadFleet."""
        try:
            sent: Any = json.parse(content) if len(content) <= MAX_CREDENTIAL else None
            match sent:
                case {
                    "node": str(node),
                    "host": str(host),
                    "port": int(port),
                    "fingerprint": str(fingerprint),
                    "certificate": str(certificate),
                    "key": str(key),
                } if _NODE.match(node) and is_host(host):
                    credential = cls(node, host, port, fingerprint, certificate, Secret(key))
                    check_pair(credential.pair, datetime.fromtimestamp(epoch(), UTC))
                    return credential
        except json.BadJson:
            pass
        except BadCertificate as error:
            raise BadFleet(f"the {error.what} of the node {error}") from None
        raise BadFleet(
            "the node's file is damaged; remove the machine with svcctl fleet remove, and add it "
            "again with svcctl fleet invite"
        )


@define
class FleetFolder:
    """The fleet's files in the host's configuration folder."""

    path: Path
    _version: tuple[int, int] | None = field(default=None, init=False)
    _nodes: dict[str, FleetNode] = field(factory=dict, init=False)  # by fingerprint

    @classmethod
    def beside(cls, env_file: str | None) -> FleetFolder:
        """Return the fleet's files beside ``env_file``, or in the current folder if it is None."""
        folder = Path() if env_file is None else Path(env_file).absolute().parent
        return cls((folder / FOLDER).absolute())

    def issue(
        self, node: str, address: str, host: str, port: int, engine_address: str = ""
    ) -> bytes:
        """Issue a certificate for a node, and return the credential file for the node's agent.

        The node's older certificate is revoked. Players reach the node at ``address``. The agent
        connects from ``engine_address`` to the metagame at ``host:port``. Raises BadFleet.
        """
        if not _NODE.match(node):
            raise BadFleet(
                f"{node[:80]!r} is not a node id: give 1 to 63 lower-case letters or digits"
            )
        for name in (address, host):
            if not is_host(name):
                raise BadFleet(f"{name[:80]!r} is not a host name or IPv4 address")
        others = [entry for entry in self.nodes() if entry.id != node]
        if len(others) >= MAX_NODES:
            raise BadFleet(f"the fleet has {MAX_NODES} nodes already; remove one first")
        authority, server = self.prepare()
        pair = make_pair([node], issuer=authority, usage=ExtendedKeyUsageOID.CLIENT_AUTH)
        entry = FleetNode(node, address, pair.fingerprint, int(epoch()), engine_address)
        self._write([*others, entry])
        credential = {
            "node": node,
            "host": host,
            "port": port,
            "fingerprint": server.fingerprint,
            "certificate": pair.certificate.decode(),
            "key": pair.key.decode(),
        }
        return json.dump(credential)

    def prepare(self) -> tuple[Pair, Pair]:
        """Return ``authority()`` and ``server()``; make the certificates that do not exist."""
        authority = self._pair("ca", lambda: make_authority("svcserver fleet"))
        return authority, self._pair("host", lambda: make_pair(["svc-metagame"]))

    def revoke(self, node: str) -> bool:
        """Refuse a node's certificate from now on; return False for an unknown node."""
        listed = self.nodes()
        others = [entry for entry in listed if entry.id != node]
        if len(others) == len(listed):
            return False
        self._write(others)
        return True

    def nodes(self) -> list[FleetNode]:
        """Return the nodes whose certificates are accepted; raises BadFleet."""
        return list(self.by_fingerprint().values())

    def by_fingerprint(self) -> Mapping[str, FleetNode]:
        """Return the accepted nodes, as a dict from certificate fingerprint to node.

        The file is read again when it has changed.
        """
        file = self.path / LIST
        try:
            state = file.stat()
            version = state.st_mtime_ns, state.st_ino
            if version != self._version:
                nodes = [_node(entry) for entry in json.parse(file.read_bytes())]
                self._nodes = {node.fingerprint: node for node in nodes}
                self._version = version
        except FileNotFoundError:
            self._nodes, self._version = {}, None
        except (OSError, TypeError, ValueError) as error:
            raise BadFleet(f"{file} cannot be read ({error}); restore it from a backup") from None
        return self._nodes

    def authority(self) -> Pair:
        """Return the certificate and key that sign the nodes' certificates; raises BadFleet."""
        return self._read_pair("ca")

    def server(self) -> Pair:
        """Return the certificate and key of the metagame's listener; raises BadFleet."""
        return self._read_pair("host")

    def _paths(self, name: str) -> tuple[Path, Path]:
        return self.path / f"{name}-cert.pem", self.path / f"{name}-key.pem"

    def _read_pair(self, name: str) -> Pair:
        try:
            return read_pair(*self._paths(name))
        except BadCertificate:
            file = self._paths(name)[0]
            raise BadFleet(f"{file} or its key cannot be read; run svcctl fleet init") from None

    def _pair(self, name: str, make: Any) -> Pair:
        if any(path.exists() for path in self._paths(name)):
            return self._read_pair(name)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        pair: Pair = make()
        write_pair_to(pair, self._paths(name))
        return pair

    def _write(self, nodes: list[FleetNode]) -> None:
        listed = [asdict(node) for node in nodes]
        replace_json(self.path / LIST, self.path / f"{LIST}.new", listed)

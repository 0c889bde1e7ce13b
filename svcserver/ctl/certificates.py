"""``svcctl cert``: the gateway's certificate, which players pin."""

from __future__ import annotations

from pathlib import Path

import click

from svcserver.ctl.host import Host, about_a_host
from svcserver.ctl.output import Out, fail
from svcserver.edge.certificate import BadCertificate, fingerprint, make_pair, write_pair


@click.group()
def cert() -> None:
    """The gateway's certificate."""


@cert.command("make")
@click.option("--host", "hosts", metavar="H", multiple=True, required=True, help="Name or address.")
@click.option(
    "--out", "folder", metavar="DIR", type=click.Path(path_type=Path), help="Default: --config."
)
@click.option("--force", is_flag=True, help="Replace one; every invite breaks.")
@about_a_host
def make(host: Host, out: Out, hosts: tuple[str, ...], folder: Path | None, force: bool) -> None:
    """Make a self-signed certificate and its key."""
    where = folder or host.folder or Path()
    try:
        pair = make_pair(hosts)
        certificate, key = write_pair(pair, where, force=force)
    except BadCertificate as why:
        fail(f"the {why.what} {why}")
    except OSError as why:
        fail(f"{where} cannot be written: {why.strerror}")
    out.data({"certificate": str(certificate), "key": str(key), "fingerprint": pair.fingerprint})
    out.say(f"certificate  {certificate}", f"key          {key}")
    out.say(f"fingerprint  {pair.fingerprint}")


@cert.command("fingerprint")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@about_a_host
def show(host: Host, out: Out, file: Path | None) -> None:
    """The SHA-256 that invites carry; FILE defaults to the host's GATEWAY_CERT."""
    path = file or host.path(host.variables("gateway").get("GATEWAY_CERT", ""))
    try:
        found = fingerprint(path.read_bytes())
    except OSError as why:
        fail(f"the certificate {path} cannot be read: {why.strerror}")
    except BadCertificate as why:
        fail(f"{path}: the certificate {why}")
    out.data({"fingerprint": found})
    out.say(found)

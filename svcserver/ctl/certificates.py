"""The command ``svcctl cert``, which creates and replaces the gateway's certificate."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from svcserver.ctl.host import Host, host_command
from svcserver.ctl.launcher_file import sign_launchers
from svcserver.ctl.noting import noted
from svcserver.ctl.output import Out, fail
from svcserver.edge.certificate import (
    CERT_FILE,
    KEY_FILE,
    BadCertificate,
    fingerprint,
    make_pair,
    next_to,
    switch_pair,
    write_pair_to,
)
from svcserver.kernel.envfile import change


@click.group()
def cert() -> None:
    """Manage the gateway's certificate."""


@host_command(cert, "make", reason=True)
@click.option(
    "--host",
    "hosts",
    metavar="H",
    multiple=True,
    required=True,
    help="A name or address that players use.",
)
@click.option(
    "--out",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the certificate. Default: the host's folder.",
)
@click.option(
    "--force", is_flag=True, help="Replace the current certificate; all invites stop working."
)
def make(
    host: Host, out: Out, hosts: tuple[str, ...], folder: Path | None, force: bool, reason: str
) -> None:
    """Make the host's certificate, or prepare to replace it.

    If the host has a certificate already, this command prepares the next certificate. New invites
    then name both certificates. Run svcctl cert switch to use the next certificate.
    """
    paths = pair_of(host, folder)
    renewal = not force and paths[0].exists()
    if renewal:
        paths = next_to(paths[0]), next_to(paths[1])
    ours = host if folder is None else Host()  # a certificate in another folder is not the host's
    with noted(ours, "make certificate", reason=reason) as trace, explain_errors(paths[0].parent):
        if renewal and paths[0].exists():
            fail(f"The next certificate is already prepared ({paths[0]}). Run svcctl cert switch.")
        pair = make_pair(hosts)
        certificate, key = write_pair_to(pair, paths, force=force or renewal)
        trace.after = {"fingerprint": pair.fingerprint, "next": renewal}
    out.data(
        {
            "certificate": str(certificate),
            "key": str(key),
            "fingerprint": pair.fingerprint,
            "next": renewal,
        }
    )
    out.text(f"certificate  {certificate}", f"key          {key}")
    out.text(f"fingerprint  {pair.fingerprint}")
    if renewal:
        out.text(
            "New invites now contain the fingerprints of this certificate and of the one in use."
            " When every player has a new invite, run svcctl cert switch."
        )


@host_command(cert, "switch", reason=True)
def switch(host: Host, out: Out, reason: str) -> None:
    """Use the certificate prepared by "svcctl cert make".

    Invites that name the new certificate keep working; older invites stop working. The old
    certificate is kept with -previous in its name.
    """
    paths = pair_of(host, None)
    with noted(host, "switch certificate", reason=reason) as trace, explain_errors(paths[0].parent):
        before = fingerprint(paths[0].read_bytes()) if paths[0].exists() else ""
        pair = switch_pair(paths)
        relay = host.folder / "relay.env" if host.folder is not None else None
        pinned = host.variables("relay") if relay is not None and relay.is_file() else {}
        if relay is not None and pinned.get("SVC_RELAY_FINGERPRINT") == before:
            change(relay, {"SVC_RELAY_FINGERPRINT": pair.fingerprint})
        trace.before, trace.after = {"fingerprint": before}, {"fingerprint": pair.fingerprint}
    sign_launchers(host)  # players who trust the new certificate alone need its signatures
    out.data({"certificate": str(paths[0]), "fingerprint": pair.fingerprint})
    out.text(f"fingerprint  {pair.fingerprint}", "Restart the gateway to use it.")


@host_command(cert, "fingerprint")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def print_fingerprint(host: Host, out: Out, file: Path | None) -> None:
    """Print the certificate's SHA-256, as used in invites.

    FILE defaults to the host's GATEWAY_CERT.
    """
    path = file or host.path(host.variables("gateway").get("GATEWAY_CERT", ""))
    try:
        digest = fingerprint(path.read_bytes())
    except OSError as why:
        fail(f"the certificate {path} cannot be read: {why.strerror}")
    except BadCertificate as why:
        fail(f"{path}: the certificate {why}")
    out.data({"fingerprint": digest})
    out.text(digest)


def pair_of(host: Host, folder: Path | None) -> tuple[Path, Path]:
    """Return the certificate and key paths in ``folder``, or the host's if ``folder`` is None."""
    pair = host.gateway_pair() if folder is None else None
    if pair is not None:
        return pair
    where = folder or host.folder or Path()
    return where / CERT_FILE, where / KEY_FILE


@contextmanager
def explain_errors(folder: Path) -> Iterator[None]:
    """Raise Failed if the ``with`` block fails because of a certificate or a file in ``folder``."""
    try:
        yield
    except BadCertificate as why:
        fail(f"the {why.what} {why}")
    except OSError as why:
        fail(f"{folder} cannot be written: {why.strerror}")

"""The signed offer of a launcher, which only the owner of the pinned certificate can sign."""

import zipfile
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.certificate import Pair, make_pair
from svcserver.edge.launcher_update import (
    MOST_BYTES,
    BadOffer,
    LauncherOffer,
    is_newer,
    order,
    packed_version,
    sign,
    verified,
)
from svcserver.kernel import json
from tests.launcher.around import new_folder

PAIR = make_pair(["play.example.org"])
OFFER = LauncherOffer("svc-launcher-windows.zip", "0.3.0", 20_000_000, "ab" * 32)


def listed(offer: LauncherOffer = OFFER, **changes: Any) -> dict[str, Any]:
    """Return an offer as a host's list of launchers contains it, with its signature."""
    entry = {"name": offer.name, "size": offer.size, **json.parse(sign(offer, PAIR))}
    return {**entry, **changes}


class LauncherUpdateTests(SynchronousTestCase):
    def test_signed_offer_is_accepted_by_its_fingerprint(self) -> None:
        self.assertEqual(verified(listed(), ("", PAIR.fingerprint)), OFFER)

    def test_every_changed_field_is_refused(self) -> None:
        another = make_pair(["play.example.org"])
        foreign = json.parse(sign(OFFER, another))
        for changes in (
            {"version": "0.4.0"},
            {"version": "0.3"},
            {"version": "0.3.0rc1"},
            {"name": "svc-launcher.pyz"},
            {"name": "../svc-launcher.pyz"},
            {"size": OFFER.size + 1},
            {"size": MOST_BYTES + 1},
            {"size": True},
            {"sha256": "ac" * 32},
            {"sha256": "AB" * 32},
            {"signature": foreign["signature"]},
            {"certificate": foreign["certificate"]},
            {"certificate": foreign["certificate"], "signature": foreign["signature"]},
            {"certificate": ""},
            {"signature": "%"},
            {"signature": None},
            {"version": ["0.3.0"]},
        ):
            with self.assertRaises(BadOffer, msg=changes):
                verified(listed(**changes), (PAIR.fingerprint,))
        with self.assertRaises(BadOffer):
            verified(listed(), ("", another.fingerprint))

    def test_private_host_without_fingerprint_offers_nothing(self) -> None:
        with self.assertRaises(BadOffer):
            verified(listed(), ("",))

    def test_versions_are_ordered_as_their_numbers_and_kinds(self) -> None:
        versions = ["odd", "0.2", "0.9.9", "0.10.0.dev2", "0.10.0a1", "0.10.0rc1", "0.10.0"]
        self.assertEqual(sorted(reversed(versions), key=order), versions)
        self.assertEqual(order("1.0"), order("1.0.0+local"))

    def test_only_later_released_versions_are_newer(self) -> None:
        for version, current in (
            ("0.3.0", "0.2.9"),
            ("0.10.0", "0.9.9"),
            ("1.0", "0.99.99"),
            ("0.3.0.1", "0.3.0"),
            ("0.3.0", "0.3.0.dev2"),
            ("0.3.0", "0.3.0rc1"),
        ):
            self.assertTrue(is_newer(version, current), (version, current))
            self.assertFalse(is_newer(current, version), (version, current))
        for version in ("0.3.0", "0.3", "", "0.4.0rc1", "01.0", "unknown", "1." * 9, "0.4+local"):
            self.assertFalse(is_newer(version, "0.3.0"), version)
        for current in ("", "unknown", "01.0", "x.0"):
            self.assertFalse(is_newer("0.9.0", current), current)
        self.assertFalse(is_newer("0.2.9", "0.3.0.dev2"))

    def test_version_is_read_from_the_packed_file(self) -> None:
        file = new_folder(self) / "svc-launcher.pyz"
        for names, version in (
            (["site-packages/svc_launcher-0.3.1.dist-info/METADATA"], "0.3.1"),
            (["Lib/x.py"], ""),
            (
                ["svc_launcher-0.3.1.dist-info/METADATA", "a/svc_launcher-1.0.dist-info/METADATA"],
                "",
            ),
        ):
            with zipfile.ZipFile(file, "w") as packed:
                for name in names:
                    packed.writestr(name, "")
            if version:
                self.assertEqual(packed_version(file), version)
            else:
                with self.assertRaises(BadOffer):
                    packed_version(file)
        modules = file.with_name("modules.zip")
        with zipfile.ZipFile(modules, "w") as packed:
            packed.writestr("svc_launcher-0.4.2.dist-info/METADATA", "")
        with zipfile.ZipFile(file, "w") as packed:
            packed.write(modules, "svc-launcher/app/python311.zip")
        self.assertEqual(packed_version(file), "0.4.2")
        file.write_bytes(b"no zip")
        with self.assertRaises(BadOffer):
            packed_version(file)

    def test_certificate_with_an_rsa_key_can_sign(self) -> None:
        key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "play.example.org")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=90))
            .sign(key, hashes.SHA256())
        )
        private = (PrivateFormat.PKCS8, NoEncryption())
        pair = Pair(
            certificate.public_bytes(Encoding.PEM), key.private_bytes(Encoding.PEM, *private)
        )
        entry = {"name": OFFER.name, "size": OFFER.size, **json.parse(sign(OFFER, pair))}
        self.assertEqual(verified(entry, (pair.fingerprint,)), OFFER)
        with self.assertRaises(BadOffer):
            verified({**entry, "version": "0.3.1"}, (pair.fingerprint,))

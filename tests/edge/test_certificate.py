"""Creating, storing and checking the gateway's certificate."""

import stat
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from twisted.trial.unittest import SynchronousTestCase

from svcserver.edge.certificate import (
    CERT_FILE,
    KEY_FILE,
    BadCertificate,
    Pair,
    check_pair,
    fingerprint,
    make_pair,
    read_pair,
    write_pair,
)
from tests.support.proves import proves

NOW = datetime(2026, 11, 21, tzinfo=UTC)


class MakingTests(SynchronousTestCase):
    @proves("gateway: certificate made and checked at start")
    def test_a_certificate_has_the_documented_properties(self) -> None:
        pair = make_pair(["play.example", "203.0.113.10"], now=NOW)
        made = x509.load_pem_x509_certificate(pair.certificate)
        names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        self.assertEqual(names.get_values_for_type(x509.DNSName), ["play.example"])
        self.assertEqual(
            [str(ip) for ip in names.get_values_for_type(x509.IPAddress)], ["203.0.113.10"]
        )
        usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        self.assertEqual(list(usage), [ExtendedKeyUsageOID.SERVER_AUTH])
        self.assertEqual(made.not_valid_before_utc, NOW - timedelta(days=1))
        self.assertEqual(made.not_valid_after_utc.year, 2036)
        self.assertEqual(made.issuer, made.subject)
        self.assertIn(b"BEGIN PRIVATE KEY", pair.key)
        self.assertNotIn("PRIVATE", repr(pair))
        self.assertRegex(pair.fingerprint, r"\A[0-9a-f]{64}\Z")
        self.assertEqual(check_pair(pair, NOW), [])

    def test_a_missing_or_bad_host_is_refused(self) -> None:
        for hosts in ([], ["b\u00fccher"], ["a b"], ["a", "b:443"], ["https://a"], [""]):
            with self.assertRaises(BadCertificate):
                make_pair(hosts)

    @proves("gateway: certificate made and checked at start")
    def test_files_are_private_and_never_overwritten_unasked(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        first = make_pair(["a"])
        paths = write_pair(first, folder)
        self.assertEqual([path.name for path in paths], [CERT_FILE, KEY_FILE])
        self.assertEqual(stat.S_IMODE(paths[1].stat().st_mode), 0o600)
        with self.assertRaisesRegex(BadCertificate, "--force"):
            write_pair(make_pair(["a"]), folder)
        self.assertEqual(read_pair(*paths).fingerprint, first.fingerprint)
        second = make_pair(["a"])
        write_pair(second, folder, force=True)
        self.assertEqual(read_pair(*paths).fingerprint, second.fingerprint)


class CheckingTests(SynchronousTestCase):
    @proves("gateway: certificate made and checked at start")
    def test_a_pair_that_no_client_would_take_is_refused(self) -> None:
        good, second = make_pair(["a"], now=NOW), make_pair(["a"], now=NOW)
        year = timedelta(days=366)
        for pair, when, what, words in (
            (Pair(good.certificate, second.key), NOW, "key", "does not belong"),
            (good, NOW + 11 * year, "certificate", "expired"),
            (good, NOW - year, "certificate", "not valid before"),
            (Pair(b"x", good.key), NOW, "certificate", "not a PEM"),
            (Pair(good.certificate, b"x"), NOW, "key", "unencrypted PEM"),
            (Pair(good.certificate, good.certificate), NOW, "key", "unencrypted PEM"),
        ):
            with self.assertRaisesRegex(BadCertificate, words) as caught:
                check_pair(pair, when)
            self.assertEqual(caught.exception.what, what)

    @proves("gateway: certificate made and checked at start")
    def test_an_end_within_thirty_days_is_a_warning(self) -> None:
        pair = make_pair(["a"], now=NOW, years=1)
        self.assertEqual(check_pair(pair, NOW + timedelta(days=330)), [])
        [warning] = check_pair(pair, NOW + timedelta(days=340))
        self.assertIn("expires in 25 days", warning)

    def test_an_unreadable_file_is_named(self) -> None:
        with self.assertRaisesRegex(BadCertificate, "/nowhere/a"):
            read_pair(Path("/nowhere/a"), Path("/nowhere/b"))
        with self.assertRaises(BadCertificate):
            fingerprint(b"")

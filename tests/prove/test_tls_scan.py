"""A TLS scanner finds no weakness at the gateway except the self-signed certificate."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.live.edge_host import ROOT, running
from tests.support.proves import proves

SCANNER = (
    ROOT / ".venv" / "prove" / "bin" / "sslyze"
)  # in an environment of its own: requirements/prove.lock
MINUTES = 5
OLD = [f"{version}_cipher_suites" for version in ("ssl_2_0", "ssl_3_0", "tls_1_0", "tls_1_1")]
LOOKS = "certinfo sslv2 sslv3 tlsv1 tlsv1_1 tlsv1_2 tlsv1_3 compression early_data openssl_ccs"
LOOKS += " fallback heartbleed robot reneg resum elliptic_curves ems"
WEAK = ("_CBC_", "_RC4_", "3DES", "_NULL_", "_EXPORT", "_MD5", "_anon_", "TLS_RSA_")


def scan(port: int, folder: Path) -> dict[str, Any]:
    """Return the scanner's findings by test name."""
    deliveries = folder / "scan.json"
    looks = ["--mozilla_config=disable", *(f"--{look}" for look in LOOKS.split())]
    subprocess.run(
        [str(SCANNER), *looks, f"--json_out={deliveries}", f"127.0.0.1:{port}"],
        check=True,
        capture_output=True,
        timeout=60 * MINUTES,
    )
    [server] = json.loads(deliveries.read_text())["server_scan_results"]
    assert server["scan_status"] == "COMPLETED", server
    result: dict[str, Any] = server["scan_result"]
    return result


def accepted(result: dict[str, Any]) -> list[str]:
    """Return the names of the cipher suites that the server accepted."""
    return [
        accepted_cipher_suite["cipher_suite"]["name"]
        for accepted_cipher_suite in result["result"]["accepted_cipher_suites"]
    ]


@pytest.fixture(scope="module")
def scan_result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not SCANNER.exists():
        pytest.skip("the scanner is not installed; make prove installs it")
    folder = tmp_path_factory.mktemp("scan")
    plenty = {"GATEWAY_RATE_CONNECT": "9999,99999", "GATEWAY_MAX_CONNECTIONS_PER_IP": "2048"}
    with running(folder, **plenty) as host:
        return scan(host.gateway_port, folder)


def test_every_check_of_the_tls_scan_is_completed(scan_result: dict[str, Any]) -> None:
    taken = [name for name, item in scan_result.items() if item["status"] == "COMPLETED"]
    assert len(taken) == len(LOOKS.split())


def test_old_tls_versions_are_refused_and_new_versions_accepted(
    scan_result: dict[str, Any],
) -> None:
    assert [accepted(scan_result[version]) for version in OLD] == [[]] * len(OLD)
    assert accepted(scan_result["tls_1_2_cipher_suites"])
    assert accepted(scan_result["tls_1_3_cipher_suites"])


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_every_cipher_has_forward_secrecy_and_proves_each_record(
    scan_result: dict[str, Any],
) -> None:
    names = accepted(scan_result["tls_1_2_cipher_suites"])
    assert [name for name in names if any(word in name for word in WEAK)] == []
    assert [name for name in names if not name.startswith("TLS_ECDHE_")] == []


@proves("gateway: TLS 1.2 or newer, self-signed, GATEWAY_BIND and GATEWAY_PORT")
def test_no_known_weakness_is_found(scan_result: dict[str, Any]) -> None:
    def result(name: str) -> dict[str, Any]:
        inner: dict[str, Any] = scan_result[name]["result"]
        return inner

    assert not result("heartbleed")["is_vulnerable_to_heartbleed"]
    assert not result("openssl_ccs_injection")["is_vulnerable_to_ccs_injection"]
    assert result("robot")["robot_result"].startswith("NOT_VULNERABLE")
    assert not result("tls_compression")["supports_compression"]
    assert not result("session_renegotiation")["is_vulnerable_to_client_renegotiation_dos"]
    assert result("session_renegotiation")["supports_secure_renegotiation"]
    assert not result("tls_1_3_early_data")["supports_early_data"]


def test_the_certificate_is_sound_and_self_signed(scan_result: dict[str, Any]) -> None:
    [chain] = scan_result["certificate_info"]["result"]["certificate_deployments"]
    assert not chain["verified_chain_has_sha1_signature"]
    assert chain["received_chain_has_valid_order"]
    [certificate] = chain["received_certificate_chain"]
    assert certificate["signature_hash_algorithm"]["name"] == "sha256"
    assert certificate["issuer"] == certificate["subject"]

"""The pinned dependencies have no known vulnerability, and the SBOM lists all of them."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.live.edge_host import ROOT
from tests.support.packaging import recipe
from tests.support.requirements import skip

BIN = ROOT / ".venv" / "audit" / "bin"  # in a venv of its own: requirements/audit.lock
SILENT = ("ConnectionError", "ServiceError", "Max retries exceeded", "Could not connect")
LOCKS = ("run", "build", "dev")


@pytest.mark.parametrize("lock", LOCKS)
def test_no_pinned_package_has_a_known_weakness(lock: str) -> None:
    command = [BIN / "pip-audit", "--disable-pip", "--require-hashes", "--progress-spinner=off"]
    command += ["--timeout=15", "--format=json", "-r", str(ROOT / "requirements" / f"{lock}.lock")]
    if not (BIN / "pip-audit").exists():
        raise skip("audit", "pip-audit is not installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    output = done.stdout + done.stderr
    if done.returncode and any(word in output for word in SILENT):
        raise skip("audit", "the list of known weaknesses cannot be asked (offline)")
    assert done.returncode == 0, output
    packages = json.loads(done.stdout)["dependencies"]
    unknown = [package["name"] for package in packages if "skip_reason" in package]
    if unknown:  # the package mirror has no vulnerability data for these packages
        raise skip("audit", f"nothing is known of {len(unknown)} of {len(packages)} packages")


def test_the_bill_of_materials_names_every_pin_with_its_hashes(tmp_path: Path) -> None:
    if not (BIN / "cyclonedx-py").exists():
        raise skip("audit", "cyclonedx-bom is not installed")
    [path, _] = recipe("sbom.py").write_pinned(tmp_path)
    document = json.loads(path.read_text())
    assert document["bomFormat"] == "CycloneDX"
    assert document["metadata"]["component"]["name"] == "svcserver"
    pins = re.findall(r"^([a-z0-9][^=\s]*)==([^\s]+)", RUN.read_text(), re.M)
    listed = {(component["name"], component["version"]) for component in document["components"]}
    assert {(re.sub(r"\[.*", "", name), version) for name, version in pins} <= listed
    for component in document["components"]:
        assert component["purl"].startswith("pkg:pypi/")
        hashes = [h for ref in component["externalReferences"] for h in ref.get("hashes", [])]
        assert hashes, component["name"]


RUN = ROOT / "requirements" / "run.lock"

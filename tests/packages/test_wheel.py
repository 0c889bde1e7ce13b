"""The wheel's contents and its pinned dependencies."""

import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]


class LockTests(SynchronousTestCase):
    def test_no_lock_names_a_registry_and_every_line_is_hashed(self) -> None:
        for lock in (ROOT / "requirements").glob("*.lock"):
            text = lock.read_text()
            self.assertIsNone(re.search(r"https?://|index-url|find-links", text), lock.name)
            pins = re.findall(r"^[a-z0-9][^\n]*==[^\n]*$", text, re.MULTILINE)
            self.assertTrue(pins)
            self.assertTrue(all(pin.endswith("\\") for pin in pins), lock.name)


class PackageTests(SynchronousTestCase):
    @pytest.mark.live
    def test_a_wheel_holds_plugins_data_and_migrations(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "source")
            source.mkdir()
            for name in ("svcserver", "twisted"):
                ignored = shutil.ignore_patterns("__pycache__")
                shutil.copytree(ROOT / name, source / name, ignore=ignored)
            for name in ("pyproject.toml", "setup.cfg", "README.md", "LICENSE"):
                shutil.copy(ROOT / name, source)
            for name in ("host", "owners"):
                shutil.copytree(ROOT / "docs" / name, source / "docs" / name)
            command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder]
            subprocess.run(
                [*command, "--no-build-isolation", str(source)],
                check=True,
                capture_output=True,
                timeout=120,
            )
            [wheel] = Path(folder).glob("*.whl")
            with zipfile.ZipFile(wheel) as packed:
                names = set(packed.namelist())
        for wanted in ("twisted/plugins/svcserver_plugins.py", "svcserver/py.typed"):
            self.assertIn(wanted, names)
        owners = [f"doc/svcserver/{path.name}" for path in (ROOT / "docs/owners").glob("*.md")]
        for shared in ("svcserver/grafana.json", *owners):
            self.assertTrue(any(name.endswith(f"data/share/{shared}") for name in names), shared)
        for kind in (
            "svcserver/**/data/*.json",
            "svcserver/db/migrations/versions/*.py",
            "svcserver/metagame/owner/dashboard/static/*",
        ):
            files = {str(path.relative_to(ROOT)) for path in ROOT.glob(kind)}
            self.assertTrue(files)
            self.assertEqual(files - names, set())
        self.assertEqual([name for name in names if name == "twisted/__init__.py"], [])

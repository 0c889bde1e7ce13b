"""How the page of packages and compose.yaml run the image.

Found here at once: tests/packages builds the image and plays in it, which takes minutes.
"""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "owners" / "packages.md").read_text()


class ContainerTests(SynchronousTestCase):
    def test_compose_makes_no_host_of_a_name_or_password_that_nobody_chose(self) -> None:
        said = (ROOT / "compose.yaml").read_text()
        for name, times in (("SVC_PUBLIC_HOST", 1), ("SVC_DATABASE_PASSWORD", 2)):
            self.assertEqual(len(re.findall(rf"\$\{{{name}:\?[^}}]+\}}", said)), times)
            self.assertEqual(said.count(f"${{{name}"), times)

    def test_all_containers_start_with_the_machine(self) -> None:
        services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        policies = {name: one["restart"] for name, one in services.items()}
        self.assertEqual(set(policies.values()), {"always"}, policies)
        self.assertEqual(PAGE.count("podman run -d --name svcserver --restart always"), 1)
        self.assertEqual(PAGE.count("sudo systemctl enable podman-restart"), 2)

    def test_each_stop_on_the_page_waits_for_the_services(self) -> None:
        said = re.findall(r"(?m)podman(?:-compose)? (?:stop|restart|down)[^`\n]*", PAGE)
        self.assertGreater(len(said), 5)
        said = [one for one in said if one != "podman-compose down"]  # named, not to be typed
        self.assertEqual([one for one in said if " -t 40" not in one], [])
        self.assertIn("--stop-timeout 40", PAGE)

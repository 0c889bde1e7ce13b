"""The way in which compose.yaml, and the documentation page about containers, run the image.

This file finds mistakes within seconds. test_compose.py, which builds the image and plays in it,
would find them only after minutes.
"""

import re
from pathlib import Path

import yaml
from twisted.trial.unittest import SynchronousTestCase

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "owners" / "container.md").read_text()


class ContainerTests(SynchronousTestCase):
    def test_compose_has_no_default_name_or_password(self) -> None:
        text = (ROOT / "compose.yaml").read_text()
        self.assertEqual(len(re.findall(r"\$\{SVC_PUBLIC_HOST:\?[^}]+\}", text)), 1)
        self.assertEqual(text.count("${SVC_PUBLIC_HOST"), 1)
        services = yaml.safe_load(text)["services"]
        files = {name: service["env_file"] for name, service in services.items()}
        both = ["database.env", "live.env"]
        # neither engine has the other's password
        expected = {"database": "database.env", "live": "live.env", "svcserver": both}
        self.assertEqual(files, expected)
        for name in ("svcserver", "database"):
            # podman-compose 1.0.3 puts these variables on its command lines
            self.assertNotIn("PASSWORD", str(services[name]["environment"]))

    def test_all_containers_start_with_the_machine(self) -> None:
        services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        policies = {name: service["restart"] for name, service in services.items()}
        self.assertEqual(set(policies.values()), {"always"}, policies)
        self.assertEqual(PAGE.count("podman run -d --name svcserver --restart always"), 1)
        # without --now, the unit stops nothing until the machine has been restarted
        self.assertEqual(PAGE.count("sudo systemctl enable --now podman-restart"), 2)

    def test_the_host_stops_before_the_services_it_needs(self) -> None:
        """Podman-compose 1.0.3 stops services in reverse file order, Docker by ``depends_on``."""
        services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
        self.assertEqual(list(services), ["database", "live", "svcserver"])

    def test_each_stop_on_the_page_waits_for_the_services(self) -> None:
        stops = re.findall(r"(?m)podman(?:-compose)? (?:stop|restart|down)[^`\n]*", PAGE)
        self.assertGreater(len(stops), 5)
        stops = [
            command for command in stops if command != "podman-compose down"
        ]  # the page mentions this command, but nobody types it
        self.assertEqual([command for command in stops if " -t 40" not in command], [])
        self.assertIn("--stop-timeout 40", PAGE)

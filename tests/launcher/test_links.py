"""``svc:`` links: their registration on each operating system, and its removal."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType

from twisted.trial.unittest import SynchronousTestCase

from svcserver.launcher.main import LinkChoice, arguments
from svcserver.launcher.places import places_of
from svcserver.launcher.scheme import LinuxScheme, WindowsScheme, own_command, scheme_of
from tests.launcher.around import new_folder


class Registered:
    """A registry in memory."""

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, str]] = {}
        self.written = 0

    def set(self, key: str, name: str, value: str) -> None:
        self.written += 1
        parts = key.split("\\")
        for count in range(1, len(parts)):
            self.keys.setdefault("\\".join(parts[:count]), {})
        self.keys.setdefault(key, {})[name] = value

    def get(self, key: str) -> str | None:
        return self.keys.get(key, {}).get("")

    def delete(self, key: str) -> None:
        assert not any(child.startswith(key + "\\") for child in self.keys), "it has keys below"
        self.keys.pop(key, None)


class Winreg(ModuleType):
    """A fake of the used parts of ``winreg``, on a registry in memory."""

    HKEY_CURRENT_USER, REG_SZ = 7, 1

    def __init__(self) -> None:
        super().__init__("winreg")
        self.registry = Registered()

    @contextmanager
    def CreateKey(self, hive: int, key: str) -> Iterator[str]:
        assert hive == self.HKEY_CURRENT_USER
        yield key

    def SetValueEx(self, key: str, name: str, _: int, kind: int, value: str) -> None:
        assert kind == self.REG_SZ
        self.registry.set(key, name, value)

    def QueryValue(self, _: int, key: str) -> str:
        value = self.registry.get(key)
        if value is None:
            raise FileNotFoundError(key)
        return value

    def DeleteKey(self, _: int, key: str) -> None:
        if key not in self.registry.keys:
            raise FileNotFoundError(key)
        if any(child.startswith(key + "\\") for child in self.registry.keys):
            raise PermissionError(key)
        del self.registry.keys[key]


class Desktop:
    """Fakes of the used Linux desktop tools."""

    def __init__(self, chosen: str = "") -> None:
        self.chosen = chosen
        self.changes: list[str] = []

    def run(self, arguments: Sequence[str]) -> str:
        if arguments[:3] == ["xdg-mime", "query", "default"]:
            assert arguments[3:] == ["x-scheme-handler/svc"]
            return f"{self.chosen}\n" if self.chosen else ""
        if arguments[:2] == ["xdg-mime", "default"]:
            assert arguments[3:] == ["x-scheme-handler/svc"]
            self.chosen = arguments[2]
            self.changes.append("default")
        else:
            assert arguments[0] == "update-desktop-database"
            self.changes.append("update")
        return ""


class SchemeTests(SynchronousTestCase):
    def test_windows_registration_uses_the_users_registry(self) -> None:
        module = Winreg()
        self.patch(sys, "modules", {**sys.modules, "winreg": module})
        self.patch(sys, "argv", [r"C:\Users\Bo Bo\svc-launcher.pyz"])
        self.patch(sys, "executable", r"C:\Python\python.exe")
        places = places_of("win32", {}, r"C:\Users\Bo Bo")
        scheme = scheme_of("win32", places)
        scheme.remove()
        scheme.add()
        written = module.registry.written
        scheme.add()
        self.assertEqual(module.registry.written, written)
        command = module.registry.get(r"Software\Classes\svc\shell\open\command")
        assert command is not None
        self.assertTrue(command.startswith('"C:\\Python\\python.exe" "'), command)
        self.assertTrue(command.endswith('svc-launcher.pyz" -- "%1"'), command)
        module.registry.set(r"Software\Classes\svc\shell\other", "", "of another program")
        with self.assertRaisesRegex(
            OSError, r"svc\\shell cannot be deleted \(.*\); .*svc cannot be deleted \("
        ):
            scheme.remove()
        for key in (r"Software\Classes\svc\shell\open", r"Software\svc-launcher"):
            self.assertNotIn(key, module.registry.keys)
        module.DeleteKey(7, r"Software\Classes\svc\shell\other")
        scheme.remove()
        self.assertEqual([key for key in module.registry.keys if "svc" in key], [])

    def test_a_link_starts_this_very_program_from_any_folder(self) -> None:
        folder = new_folder(self)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(folder)
        for name in ("svc-launcher", "svc-launcher.pyz"):
            (folder / name).write_text("#!/bin/sh\n")
            (folder / name).chmod(0o755)
        own = folder.resolve() / "svc-launcher"
        for called, command in (
            ("./svc-launcher", [str(own)]),
            (str(own), [str(own)]),
            ("svc-launcher.pyz", [sys.executable, f"{own}.pyz"]),
            ("no-such-program", [sys.executable, "-m", "svcserver.launcher.main"]),
        ):
            self.patch(sys, "argv", [called])
            self.assertEqual(own_command(), command)

    def test_windows_registration_is_written_and_undone(self) -> None:
        registry = Registered()
        registry.set(r"Software\Classes\other", "", "kept")
        before = {key: dict(values) for key, values in registry.keys.items()}
        scheme = WindowsScheme(registry, [r"C:\Program Files\py.exe", r"C:\l.pyz"])
        scheme.add()
        written = registry.written
        scheme.add()
        self.assertEqual(registry.written, written)
        self.assertEqual(registry.keys[r"Software\Classes\svc"]["URL Protocol"], "")
        self.assertEqual(
            registry.get(r"Software\Classes\svc\shell\open\command"),
            r'"C:\Program Files\py.exe" "C:\l.pyz" -- "%1"',
        )
        scheme.remove()
        scheme.remove()
        self.assertEqual(registry.keys, before)

    def test_windows_registration_of_another_program_stays(self) -> None:
        registry, opening = Registered(), r"Software\Classes\svc\shell\open\command"
        ours, foreign = r'"C:\old\l.pyz" -- "%1"', r'"C:\other.exe" "%1"'
        WindowsScheme(registry, [r"C:\old\l.pyz"]).add()
        moved = WindowsScheme(registry, [r"C:\new\l.pyz"])
        # the registration was the launcher's own, with its old path
        self.assertIn("now open the launcher", moved.add())
        WindowsScheme(registry, [r"C:\old\l.pyz"]).add()
        self.assertEqual(registry.get(opening), ours)
        self.assertIn("no longer", moved.remove())
        self.assertIsNone(registry.get(opening))
        registry.set(opening, "", foreign)
        for text in (moved.add(), moved.remove()):
            self.assertIn(foreign, text)
            self.assertEqual(registry.get(opening), foreign)
        self.assertIn("now open the launcher", moved.add(over_another=True))
        registry.set(opening, "", foreign)  # this other program was installed afterwards
        self.assertIn("still open another program", moved.remove())
        self.assertEqual(registry.get(opening), foreign)
        self.assertNotIn(r"Software\svc-launcher", registry.keys)

    def test_choice_about_links_is_saved(self) -> None:
        choice = LinkChoice(new_folder(self) / "state")
        self.assertTrue(choice.wanted())
        for wanted in (False, True, False):
            choice.keep(wanted=wanted)
            self.assertIs(LinkChoice(choice.state).wanted(), wanted)
        for text in ("", "[]", "{", '{"wanted": 0}'):
            (choice.state / "links.json").write_text(text)
            self.assertTrue(choice.wanted())
        for words in (["--links"], ["--no-links"], []):
            options = arguments(words)
            self.assertEqual(
                (options.links, options.no_links), (words == ["--links"], words == ["--no-links"])
            )
        with self.assertRaises(SystemExit):
            arguments(["--links", "--no-links"])
        # after "--", the argument is a link and no option
        self.assertEqual(arguments(["--", "--links"]).what, "--links")

    def test_linux_registration_is_written_and_undone(self) -> None:
        folder, desktop = new_folder(self), Desktop()
        choices = folder / "mimeapps.list"
        command = ["/opt/my py", "/l.pyz"]
        scheme = LinuxScheme(folder / "applications", command, desktop.run, choices)
        self.assertIn("now open the launcher", scheme.add())
        [file] = (folder / "applications").iterdir()
        text = file.read_text()
        icon = folder / "icons/hicolor/scalable/apps/svc-launcher.svg"
        self.assertIn("<svg", icon.read_text())
        self.assertIn("Icon=svc-launcher\n", text)
        self.assertIn('Exec="/opt/my py" "/l.pyz" -- %u\n', text)
        self.assertIn("MimeType=x-scheme-handler/svc;\n", text)
        self.assertEqual(desktop.changes, ["default", "update"])
        self.assertIn('" open the launcher', scheme.add())
        self.assertEqual(desktop.changes, ["default", "update"])
        before = "[Default Applications]\ntext/html=fox.desktop\nx-scheme-handler/svc={}\n"
        for choice in ("other.desktop", "svc-launcher.desktop.mine"):
            choices.write_text(before.format(choice))
            scheme.remove()
            self.assertEqual(choices.read_text(), before.format(choice))
        for ours in ("svc-launcher.desktop", "svc-launcher.desktop;"):
            choices.write_text(before.format(ours))
            scheme.remove()
            self.assertEqual(choices.read_text().splitlines(), before.splitlines()[:2])
        self.assertEqual(list((folder / "applications").iterdir()), [])
        self.assertFalse(icon.exists())
        self.assertEqual(list(folder.glob("mime*")), [choices])

    def test_linux_launcher_is_in_the_menu_beside_another_program(self) -> None:
        folder, desktop = new_folder(self), Desktop(chosen="other.desktop")
        programs = folder / "applications"
        scheme = LinuxScheme(programs, ["/l.pyz"], desktop.run, folder / "mimeapps.list")
        self.assertIn("still open another program (other.desktop)", scheme.add())
        entry = programs / "svc-launcher.desktop"
        self.assertIn('Exec="/l.pyz" -- %u\n', entry.read_text())
        self.assertNotIn("MimeType", entry.read_text())
        self.assertEqual(desktop.changes, [])
        self.assertIn("now open the launcher", scheme.add(over_another=True))
        self.assertEqual(desktop.chosen, "svc-launcher.desktop")
        desktop.chosen = "other.desktop"  # the player's choice, later
        self.assertIn("still open another program", scheme.add())
        self.assertEqual(desktop.chosen, "other.desktop")
        self.assertIn("MimeType", entry.read_text())
        self.assertIn("now open the launcher", scheme.add(over_another=True))
        self.assertEqual(desktop.chosen, "svc-launcher.desktop")

    def test_linux_registration_works_without_desktop_helpers(self) -> None:
        folder = new_folder(self)
        scheme = LinuxScheme(folder, ["/l.pyz"], lambda _: "", folder / "mimeapps.list")
        self.assertIn("now open the launcher", scheme.add())
        self.assertIn('" open the launcher', scheme.add())
        self.assertTrue((folder / "svc-launcher.desktop").is_file())
        scheme.remove()
        self.assertEqual(list(folder.iterdir()), [])

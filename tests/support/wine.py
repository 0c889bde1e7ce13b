"""A Windows PC for tests: Wine with a new prefix, and the launcher that is built for Windows.

Wine passes standard streams to a program only if they are pipes or terminals, not files. Wine 8
lacks ``bcryptprimitives.dll``, which every Windows since 8.1 has, so a small replacement is put
into the template.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen

from tests.support import shared
from tests.support.registries import loaded
from tests.support.requirements import skip

ROOT = Path(__file__).resolve().parents[2]
COMPILER = "x86_64-w64-mingw32-gcc"
BUILD_S = 600
START_S = 120  # of a prefix, or of a program in one
RANDOM = """\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{ return SystemFunction036(data, (ULONG)size); }
"""
PYTHON = """\
#include <windows.h>
int _dowildcard = 0;
int wmain(int argc, wchar_t **argv)
{
    HMODULE python = LoadLibraryExW(PYTHON, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    return ((int (*)(int, wchar_t **))(void *)GetProcAddress(python, "Py_Main"))(argc, argv);
}
"""


def need_wine() -> None:
    """Skip the test, with the requirement ``wine``, if Wine or the compiler is not installed."""
    missing = [program for program in ("wine", COMPILER, "apt-get") if not shutil.which(program)]
    if missing or sys.version_info[:2] != (3, 11):
        why = f"{', '.join(missing) or 'Python 3.11'} is missing"
        raise skip("wine", f"{why} (apt-get install wine64 gcc-mingw-w64-x86-64, on Debian 12)")


def compiled(source: Path, program: Path, *options: str) -> Path:
    """Compile a C file for Windows and return the program's path."""
    command = [COMPILER, "-Os", "-s", "-o", str(program), str(source), *options]
    subprocess.run(command, check=True, timeout=START_S)
    return program


def windows_zip() -> Path:
    """Return the zip that ``make launcher-windows`` builds, built once for a test run."""
    need_wine()
    return Path(shared.once("windows", lambda: str(build(shared.folder() / "windows-dist"))))


def build(dist: Path) -> Path:
    """Build the zip in ``dist`` and return its path."""
    script = ROOT / "packaging" / "launcher_windows.py"
    ran = loaded([sys.executable, script, dist], BUILD_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return dist / "svc-launcher-windows.zip"


def _template() -> Path:
    """Return a prepared prefix, whose system folder all PCs share."""
    folder = Path(sys.prefix) / "wine"
    if not folder.exists():
        partial = folder.with_name("wine.partial")
        shutil.rmtree(partial, ignore_errors=True)
        environ = _environ(partial)
        subprocess.run(
            ["wine", "wineboot", "-i"],
            env=environ,
            check=True,
            timeout=START_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        _server(environ, "-w")
        source = partial / "random.c"
        source.write_text(RANDOM)
        system = partial / "drive_c" / "windows" / "system32"
        compiled(source, system / "bcryptprimitives.dll", "-shared", "-ladvapi32")
        partial.rename(folder)
    return folder


def _environ(prefix: Path) -> dict[str, str]:
    environ = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mshtml="}
    return {"PATH": os.environ["PATH"], "HOME": str(prefix.parent), **environ}


def _server(environ: dict[str, str], option: str) -> None:
    """Wait until the prefix's programs end (``-w``), or end them (``-k``)."""
    server = shutil.which("wineserver") or "/usr/lib/wine/wineserver64"
    subprocess.run([server, option], env=environ, check=False, timeout=START_S)


@frozen
class WindowsPC:
    """A new prefix with the unzipped launcher in the user's download folder."""

    prefix: Path
    environ: dict[str, str] = field(factory=dict)

    @property
    def user(self) -> Path:
        """Return the user's folder."""
        [folder] = (
            path for path in (self.prefix / "drive_c" / "users").iterdir() if path.name != "Public"
        )
        return folder

    @property
    def local(self) -> Path:
        """Return the folder ``%LOCALAPPDATA%``."""
        return self.user / "AppData" / "Local"

    @property
    def unzipped(self) -> Path:
        """Return the folder of the unzipped launcher."""
        return self.user / "Downloads" / "svc-launcher"

    @property
    def command(self) -> tuple[str, str]:
        """Return the command line that starts the launcher with a console."""
        return "wine", str(self.unzipped / "svc-launcher-cli.exe")

    def start(self, *words: object, **more: str) -> subprocess.Popen[str]:
        """Start a Windows program with pipes; ``more`` is added to its environment."""
        return subprocess.Popen(
            ["wine", *map(str, words)],
            env={**self.environ, **more},
            cwd=self.prefix,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *words: object, **more: str) -> str:
        """Return the output of a Windows program, which must succeed."""
        with self.start(*words, **more) as process:
            output, _ = process.communicate(timeout=START_S)
        assert process.returncode == 0, output
        return output

    def python(self, program: str) -> str:
        """Return the output of Python code in the launcher's own Python, which must succeed."""
        python = self.prefix / "python.exe"
        if not python.exists():
            source = self.prefix / "python.c"
            source.write_text(PYTHON)
            library = "Z:" + str(self.unzipped / "app" / "python311.dll").replace("/", "\\\\")
            compiled(source, python, "-municode", f'-DPYTHON=L"{library}"')
        return self.run(python, "-c", program)

    def launcher(self, *words: object) -> str:
        """Return the output of the unzipped launcher, which must succeed."""
        return self.run(self.command[1], *words)

    def registered(self, key: str) -> str:
        """Return a registry key's default value, or "" if there is none."""
        with self.start("reg", "query", key, "/ve") as process:
            output, _ = process.communicate(timeout=START_S)
        _, _, value = output.partition("REG_SZ")
        return value.strip()


@contextmanager
def windows_pc(folder: Path) -> Iterator[WindowsPC]:
    """Set up a PC in ``folder``, and end all its programs at the end of the block."""
    need_wine()
    template = Path(shared.once("wine", lambda: str(_template())))
    prefix = folder / "prefix"
    (prefix / "drive_c").mkdir(parents=True)
    for path in template.glob("*.reg"):
        shutil.copy(path, prefix)
    shutil.copy(template / ".update-timestamp", prefix)
    shutil.copytree(template / "dosdevices", prefix / "dosdevices", symlinks=True)
    for path in (template / "drive_c").iterdir():
        if path.name == "windows":
            (prefix / "drive_c" / "windows").symlink_to(path)
        else:
            shutil.copytree(path, prefix / "drive_c" / path.name, symlinks=True)
    pc = WindowsPC(prefix, _environ(prefix))
    for link in filter(Path.is_symlink, pc.user.iterdir()):  # to the folders of who tests
        link.unlink()
        link.mkdir()
    (pc.user / "Downloads").mkdir(exist_ok=True)
    with zipfile.ZipFile(windows_zip()) as packed:
        packed.extractall(pc.user / "Downloads")
    try:
        yield pc
    finally:
        _server(pc.environ, "-k")

"""A Windows PC for tests: Wine with a new prefix, and the launcher that is built for Windows.

Wine passes standard streams to a program only if they are pipes or terminals, not files. Wine 8
lacks ``bcryptprimitives.dll``, which every Windows since 8.1 has, so a small replacement is put
into the template.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from attrs import field, frozen

from svcserver.launcher.own_program import CURRENT
from svcserver.launcher.view import VERSION
from tests.support import shared
from tests.support.packaging import recipe
from tests.support.registries import loaded
from tests.support.requirements import skip

ROOT = Path(__file__).resolve().parents[2]
BUILD_S = 600
DOWNLOAD = "import launcher_windows; print(launcher_windows.downloaded())"
UNZIPPED = Path("drive_c/unzipped/svc-launcher")  # in a prefix
PIPE_BYTES = 1 << 16  # bytes that a program may print while nobody reads
IDLE_S = 60  # after which Wine's server ends if no program runs
# added to a prefix: no screen; no drivers of game controllers and drives, which take a third of
# the time of a launcher's start, because each look at a file asks for its drive
NEEDLESS = ("MountMgr", "winebus", "winehid", "wineusb")
REGISTRY = {
    "user.reg": '\n[Software\\\\Wine\\\\Drivers]\n"Graphics"="null"\n',
    "system.reg": "".join(
        f'\n[System\\\\CurrentControlSet\\\\Services\\\\{name}]\n"Start"=dword:00000004\n'
        for name in NEEDLESS
    ),
}
START_S = 120  # of a prefix, or of a program in one
RANDOM = """\
#include <windows.h>
BOOLEAN NTAPI SystemFunction036(PVOID, ULONG);
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE data, SIZE_T size)
{ return SystemFunction036(data, (ULONG)size); }
"""
LIBRARY = "SVC_TEST_PYTHON"  # the variable with the path of python311.dll
PYTHON = """\
#include <windows.h>
int _dowildcard = 0;
int wmain(int argc, wchar_t **argv)
{
    static wchar_t library[32768], script[32768], *words[64];
    int count = 0;
    GetEnvironmentVariableW(L"SVC_TEST_PYTHON", library, 32768);
    HMODULE python = LoadLibraryExW(library, NULL, LOAD_WITH_ALTERED_SEARCH_PATH);
    GetModuleFileNameW(NULL, script, 32760);
    wcscpy(wcsrchr(script, L'.'), L".py");
    words[count++] = argv[0];
    if (GetFileAttributesW(script) != INVALID_FILE_ATTRIBUTES)
        words[count++] = script;
    for (int at = 1; at < argc && count < 64; at++)
        words[count++] = argv[at];
    return ((int (*)(int, wchar_t **))(void *)GetProcAddress(python, "Py_Main"))(count, words);
}
"""


def _missing() -> list[str]:
    programs = [name for name in ("wine", "apt-get") if not shutil.which(name)]
    return programs + ["Python 3.11"] * (sys.version_info[:2] != (3, 11))


def is_here() -> bool:
    """Return whether this machine has Wine, and can build the launcher for Windows."""
    return not _missing()


def need_wine() -> None:
    """Skip the test if a program is not installed; fail instead if the run requires ``wine``."""
    if missing := _missing():
        why = f"not installed: {', '.join(missing)}"
        raise skip("wine", f"{why} (apt-get install wine wine64, on Debian 12)")


def inputs() -> Path:
    """Return the folder with all inputs of the Windows launcher, among them the compiler."""
    return Path(shared.once("windows-inputs", _download))


def _download() -> str:
    ran = loaded([sys.executable, "-c", DOWNLOAD], BUILD_S, ROOT / "packaging")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()[-1]


def compiled(source: Path, program: Path, *options: str) -> Path:
    """Compile a C file for Windows and return the program's path."""
    script = recipe("launcher_windows.py")
    words = ("-Os", "-s", "-o", program, source, *options)
    script.run_compiler(inputs(), script.COMPILER, *words, cwd=program.parent)
    return program


def windows_zip() -> Path:
    """Return the zip that ``make launcher-windows`` builds, built once for a test run."""
    need_wine()
    return Path(shared.once("windows", lambda: str(build(shared.folder() / "windows-dist"))))


def newer_zip(folder: Path, version: str, left_out: str = "") -> Path:
    """Return the zip of the Windows launcher, changed to another version.

    Library files whose path contains ``left_out`` are omitted.
    """
    newer = folder / f"{version}.zip"
    with zipfile.ZipFile(windows_zip()) as old, zipfile.ZipFile(newer, "w") as new:
        for entry in old.infolist():
            text = old.read(entry)
            if "/app/svc_launcher-" in entry.filename:
                _, _, name = entry.filename.partition(".dist-info")
                entry.filename = f"svc-launcher/app/svc_launcher-{version}.dist-info{name}"
                lines = text.decode().splitlines(keepends=True)
                text = "".join(
                    f"Version: {version}\n" if line.startswith("Version:") else line
                    for line in lines
                ).encode()
            elif left_out and entry.filename.endswith("/python311.zip"):
                text = _without(text, left_out)
            new.writestr(entry, text)
    return newer


def _without(content: bytes, name: str) -> bytes:
    """Return a zip without the files whose path contains ``name``."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(result, "w") as new:
        for entry in old.infolist():
            if name not in entry.filename:
                new.writestr(entry, old.read(entry))
    return result.getvalue()


def build(dist: Path) -> Path:
    """Build the zip in ``dist`` and return its path."""
    inputs()  # downloaded once for all workers
    script = ROOT / "packaging" / "launcher_windows.py"
    ran = loaded([sys.executable, script, dist], BUILD_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return dist / "svc-launcher-windows.zip"


def python_program() -> Path:
    """Return a Windows program that runs the Python file beside it that has the same name, if any.

    The program uses the Python of the launcher on the same PC.
    """
    return Path(shared.once("windows-python", lambda: str(_python_program())))


def _python_program() -> Path:
    source = shared.folder() / "python.c"
    source.write_text(PYTHON)
    return compiled(source, shared.folder() / "python.exe", "-municode")


def _template() -> Path:
    """Return a prepared prefix, whose system folder all PCs share."""
    folder = Path(sys.prefix) / "wine"
    if not folder.exists():
        partial = folder.with_name("wine.partial")
        shutil.rmtree(partial, ignore_errors=True)
        environ = _environ(partial)
        _boot(environ, "-i")
        _server(environ, "-w")
        source = partial / "random.c"
        source.write_text(RANDOM)
        system = partial / "drive_c" / "windows" / "system32"
        compiled(source, system / "bcryptprimitives.dll", "-shared", "-ladvapi32")
        partial.rename(folder)
    return folder


def on_windows(path: Path) -> str:
    """Return the name that a Windows program uses for a path of this machine."""
    return "Z:" + str(path).replace("/", "\\")


def _environ(prefix: Path) -> dict[str, str]:
    absent = "mshtml=;winemenubuilder.exe="  # no web pages, no menu of the desktop around Wine
    environ = {"WINEPREFIX": str(prefix), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": absent}
    environ["LC_ALL"] = "C.UTF-8"  # for Wine's names of files outside ASCII
    environ[LIBRARY] = on_windows(prefix / UNZIPPED / "app" / "python311.dll")
    return {"PATH": os.environ["PATH"], "HOME": str(prefix.parent), **environ}


def _boot(environ: dict[str, str], *options: str) -> None:
    """Start the system's own programs in a prefix."""
    devnull = subprocess.DEVNULL
    command = ["wine", "wineboot", *options]
    subprocess.run(
        command,
        env=environ,
        check=True,
        timeout=START_S,
        stdin=devnull,
        stdout=devnull,
        stderr=devnull,
    )


def _server(environ: dict[str, str], option: str) -> None:
    """Start a prefix's server (``-p``), wait for its programs (``-w``), or end all (``-k``)."""
    server = shutil.which("wineserver") or "/usr/lib/wine/wineserver64"
    subprocess.run([server, option], env=environ, check=False, timeout=START_S)


@frozen
class WindowsPC:
    """A new prefix with the unzipped launcher in the user's download folder."""

    prefix: Path
    environ: dict[str, str] = field(factory=dict)

    @classmethod
    def of(cls, folder: Path) -> WindowsPC:
        """Return the PC that was set up in ``folder``."""
        return cls(folder / "prefix", _environ(folder / "prefix"))

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
        return self.prefix / UNZIPPED

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
        """Return the output of a Windows program, which must succeed; its children may outlive it.

        The children hold the program's pipe open, as the shell that deletes an installed launcher
        does for 36 s.
        """
        with self.start(*words, **more) as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.wait(START_S)
            os.set_blocking(process.stdout.fileno(), False)
            output = b""
            with suppress(BlockingIOError):  # nothing was printed
                output = os.read(process.stdout.fileno(), PIPE_BYTES)
        text = output.decode().replace("\r\n", "\n")
        assert process.returncode == 0, (process.returncode, text)
        return text

    def python(self, code: str) -> str:
        """Return the output of Python code in the launcher's own Python, which must succeed."""
        return self.run(python_program(), "-c", code)

    def install(self, root: Path) -> None:
        """Install the unzipped launcher as its first start would, so that later starts use it."""
        shutil.copytree(self.unzipped, root / VERSION)
        (root / CURRENT).write_text(VERSION)

    def launcher(self, *words: object) -> str:
        """Return the output of the unzipped launcher, which must succeed."""
        return self.run(self.command[1], *words)

    def open_link(self, link: str) -> None:
        """Open a link with the program registered for its scheme, and wait for the program.

        Wine 8 reads only the machine's part of the registry, so the user's registration is copied
        there.
        """
        scheme = link.partition(":")[0]
        ends = (rf"{root}\Software\Classes\{scheme}" for root in ("HKCU", "HKLM"))
        self.run("reg", "copy", *ends, "/s", "/f")
        self.run("start", "/wait", link)

    def runs(self, program: str) -> bool:
        """Return whether a process of this PC has ``program`` in its command line."""
        prefix = f"WINEPREFIX={self.prefix}\0".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                line, environ = ((process / name).read_bytes() for name in ("cmdline", "environ"))
            except OSError:
                continue  # the process has just ended
            if program.encode() in line and prefix in environ:
                return True
        return False

    def registered(self, key: str) -> str:
        """Return a registry key's default value, or "" if the key has no default value."""
        with self.start("reg", "query", key, "/ve") as process:
            output, _ = process.communicate(timeout=START_S)
        _, _, value = output.partition("REG_SZ")
        return value.strip()


CLOSE = """
import ctypes
kernel = ctypes.WinDLL("kernel32")
for name in ("OpenProcess", "GetModuleHandleW", "GetProcAddress", "CreateRemoteThread"):
    getattr(kernel, name).restype = ctypes.c_void_p
module = ctypes.c_void_p(kernel.GetModuleHandleW("kernelbase.dll"))
routine = ctypes.c_void_p(kernel.GetProcAddress(module, b"CtrlRoutine"))
process = ctypes.c_void_p(kernel.OpenProcess(0x1FFFFF, False, PROCESS))
event = ctypes.c_void_p(2)  # CTRL_CLOSE_EVENT
print(bool(kernel.CreateRemoteThread(process, None, 0, routine, event, 0, None)))
"""


def close_console(pc: WindowsPC, running: Path) -> None:
    """Tell the running launcher that its console is closed, in the way Windows does.

    ``running`` is the file in which the launcher has stored its process id. In these tests, no
    console under Wine has a window that could be closed.
    """
    process = json.loads(running.read_text())["pid"]
    assert pc.python(f"PROCESS = {process}\n{CLOSE}").strip() == "True"


@contextmanager
def windows_pc(folder: Path, user: Path | None = None, name: str = "") -> Iterator[WindowsPC]:
    """Set up a PC in ``folder``; end all its programs afterwards.

    ``user`` is a folder of this machine, which becomes the user's folder on the PC. ``name`` is the
    user's name.
    """
    need_wine()
    template = Path(shared.once("wine", lambda: str(_template())))
    prefix = folder / "prefix"
    (prefix / "drive_c").mkdir(parents=True)
    for path in template.glob("*.reg"):
        shutil.copy(path, prefix)
    for part, lines in REGISTRY.items():
        with (prefix / part).open("a") as registry:
            registry.write(lines)
    shutil.copy(template / ".update-timestamp", prefix)
    shutil.copytree(template / "dosdevices", prefix / "dosdevices", symlinks=True)
    for path in (template / "drive_c").iterdir():
        if path.name == "windows":
            (prefix / "drive_c" / "windows").symlink_to(path)
        else:
            shutil.copytree(path, prefix / "drive_c" / path.name, symlinks=True)
    pc = WindowsPC(prefix, _environ(prefix))
    # links to the folders of the user who runs the tests
    for link in filter(Path.is_symlink, pc.user.iterdir()):
        link.unlink()
        link.mkdir()
    if user is not None:
        for path in pc.user.iterdir():
            if not (user / path.name).exists():
                path.rename(user / path.name)
        link = pc.user
        shutil.rmtree(link)
        link.symlink_to(user)
    if name:
        pc.user.rename(pc.user.with_name(name))
        pc.environ["USER"] = name
    with zipfile.ZipFile(windows_zip()) as packed:
        packed.extractall(pc.unzipped.parent)
    try:
        # otherwise the server ends with each program, and may end the next program
        _server(pc.environ, f"-p{IDLE_S}")
        _boot(pc.environ)  # the system's programs must not hold the pipes of the first program
        yield pc
    finally:
        _server(pc.environ, "-k")

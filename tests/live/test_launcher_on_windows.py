"""The launcher as a Windows program, under Wine: installed, opened by links, locked, removed.

Real processes are needed because Windows programs run under Wine.
"""

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.launcher.around import invite_text
from tests.support.processes import SELDOM_S, eventually
from tests.support.wine import (
    WindowsPC,
    close_console,
    newer_zip,
    on_windows,
    python_program,
    windows_pc,
    windows_zip,
)

pytestmark = pytest.mark.live

USER = "Bjørn Żółw"
SCHEME = r"HKCU\Software\Classes\svc\shell\open\command"
UNINSTALL = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Uninstall\svc-launcher"


@pytest.fixture
def pc(tmp_path: Path) -> Iterator[WindowsPC]:
    """Set up a Windows PC."""
    with windows_pc(tmp_path) as made:
        yield made


def own(pc: WindowsPC) -> Path:
    """Return the launcher's folder in the user's profile."""
    return pc.local / "svc-launcher"


def shortcut(pc: WindowsPC) -> Path:
    menu = pc.user / "AppData/Roaming/Microsoft/Windows/Start Menu/Programs"
    return menu / "svc launcher.lnk"


def hosts(pc: WindowsPC) -> list[str]:
    """Return the hosts that the launcher has in its list."""
    file = own(pc) / "state" / "hosts.json"
    return [host["name"] for host in json.loads(file.read_text())["hosts"]] if file.exists() else []


def is_private(file: Path) -> bool:
    """Return whether only the user may open a file.

    Wine shows an access list as a mode in which the group always has the user's rights. So only the
    rights of others are checked.
    """
    return file.stat().st_mode & 0o007 == 0


def merge_classes(pc: WindowsPC) -> None:
    """Register the links for the whole machine, because Wine 8 ignores a user's registrations."""
    everybody = SCHEME.replace("HKCU", "HKLM")
    pc.run("reg", "add", everybody, "/ve", "/d", pc.registered(SCHEME), "/f")


# slow: 40 s: several starts under Wine
def test_first_start_installs_the_launcher_and_remove_undoes_it(pc: WindowsPC) -> None:
    before = pc.registered(SCHEME), pc.registered(UNINSTALL)
    assert before == ("", "")
    with pc.start(pc.unzipped / "svc-launcher.exe", "--key-file") as first:
        eventually(shortcut(pc).exists)
        eventually(lambda: pc.registered(UNINSTALL) != "", pause_s=SELDOM_S)
        program = r"AppData\Local\svc-launcher\program\svc-launcher.exe"
        assert pc.registered(SCHEME).endswith(f'{program}" -- "%1"')
        assert pc.registered(UNINSTALL).endswith(f'{program}" remove')
        merge_classes(pc)
        for name in ("Friday Hunts", "Sunday Hunts"):
            pc.run("start", invite_text(name=name, host=f"{name[:3].lower()}.example.org"))
            eventually(lambda name=name: name in hosts(pc))
        assert len(list((own(pc) / "program").glob("*/app"))) == 1
        state = [path for path in (own(pc) / "state").iterdir() if path.suffix in (".json", ".log")]
        assert not [path.name for path in state if b"\r" in path.read_bytes()]
        output = pc.launcher("remove")
        first.wait(60)
    assert "Your keys and games are still in" in output
    eventually(lambda: not (own(pc) / "program").exists())
    assert (pc.registered(SCHEME), pc.registered(UNINSTALL)) == before
    assert not shortcut(pc).exists()
    assert not (own(pc) / "state" / "running.json").exists()
    assert len(hosts(pc)) == 2


# slow: a launcher and Python start under Wine
def test_launcher_ends_cleanly_when_its_console_is_closed(pc: WindowsPC) -> None:
    running = own(pc) / "state" / "running.json"
    with pc.start(pc.command[1], "--no-browser", "--key-file", "--no-links") as process:
        eventually(running.exists, 90)
        close_console(pc, running)
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert not running.exists()
    assert "Main loop terminated" in (running.with_name("launcher.log")).read_text()


# slow: a launcher starts under Wine
def test_page_is_opened_in_the_default_browser(pc: WindowsPC, tmp_path: Path) -> None:
    """Wine passes links to the ``xdg-open`` of the Linux system on which Wine runs."""
    opener, opened = tmp_path / "bin" / "xdg-open", tmp_path / "opened"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" >> "{opened}"\n')
    opener.chmod(0o755)
    pc.environ["PATH"] = f"{opener.parent}:{pc.environ['PATH']}"
    with pc.start(pc.unzipped / "svc-launcher.exe", "--no-links", "--key-file"):
        eventually(lambda: opened.exists() and opened.read_text().endswith("\n"), 90)
        pc.run("taskkill", "/f", "/im", "svc-launcher.exe")
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/#[0-9a-f]+\n", opened.read_text())


# slow: 40 s: three starts under Wine
def test_one_of_two_launchers_started_together_runs(pc: WindowsPC) -> None:
    names = ("Friday Hunts", "Sunday Hunts")
    invites = [invite_text(name=name, host=f"{name[:3].lower()}.example.org") for name in names]
    started = [pc.start(pc.command[1], "--print-link", "--key-file", text) for text in invites]
    eventually(lambda: [process.poll() for process in started].count(0) == 1, 90)
    eventually(lambda: set(hosts(pc)) == set(names))
    assert [process.poll() for process in started].count(None) == 1
    pc.run("taskkill", "/f", "/im", "svc-launcher-cli.exe")
    for process in started:
        process.communicate(timeout=60)
    assert (own(pc) / "state" / "running.json").exists()
    with pc.start(pc.command[1], "--no-browser", "--key-file") as again:
        output, _ = again.communicate("quit\n", 90)
    assert "Type help" in output


def test_installed_program_removes_itself(pc: WindowsPC) -> None:
    with pc.start(pc.unzipped / "svc-launcher.exe", "--print-link", "--key-file") as first:
        eventually((own(pc) / "state" / "running.json").exists)
        eventually(lambda: pc.registered(UNINSTALL) != "", pause_s=SELDOM_S)
        pc.run(own(pc) / "program" / "svc-launcher-cli.exe", "remove")
        first.wait(60)
    eventually(lambda: not (own(pc) / "program").exists(), 90)
    assert pc.registered(UNINSTALL) == ""


REMOVE = r"""
from pathlib import Path
from svcserver.launcher.own_program import remove_later
remove_later(Path("C:\\R&D (old)\\program"))
"""


def test_folder_whose_path_looks_like_a_command_is_removed(pc: WindowsPC) -> None:
    folder = pc.prefix / "drive_c" / "R&D (old)" / "program"
    (folder / "app").mkdir(parents=True)
    pc.python(REMOVE)
    eventually(lambda: not folder.exists(), 60)
    assert folder.parent.exists()


def test_user_with_a_foreign_name_installs_and_removes_a_launcher(tmp_path: Path) -> None:
    with windows_pc(tmp_path, name=USER) as pc:
        with pc.start(pc.unzipped / "svc-launcher.exe", "--no-links", "--key-file") as first:
            running = own(pc) / "state" / "running.json"
            eventually(lambda: shortcut(pc).exists() and running.exists())
            assert list((own(pc) / "program").glob("*/svc-launcher.exe"))
            assert USER in pc.launcher("remove")
            first.wait(60)
        assert not shortcut(pc).exists()
        eventually(lambda: not (own(pc) / "program").exists())


DIALOG = """
import ctypes, time
user = ctypes.WinDLL("user32")
window, until = 0, time.monotonic() + 60
while not window and time.monotonic() < until:
    window = user.FindWindowW(None, "svc launcher")
    time.sleep(0.1)
text = ctypes.create_unicode_buffer(2000)
user.SendMessageW(user.GetDlgItem(window, 0xFFFF), 0x0D, 2000, text)  # WM_GETTEXT
print(text.value)
user.PostMessageW(window, 0x10, 0, 0)  # WM_CLOSE
"""


def test_crash_leaves_a_log_and_a_dialog_that_names_it(pc: WindowsPC) -> None:
    own(pc).mkdir(parents=True)
    (own(pc) / "state").touch()  # a file in place of the folder
    with pc.start(pc.unzipped / "svc-launcher.exe"):
        text = pc.python(DIALOG)
    assert "The launcher has crashed." in text
    [report] = pc.user.rglob("svc-launcher-crash.log")
    assert report.name in text
    assert "FileExistsError" in report.read_text()
    assert is_private(report)


HARD_CRASH = """
import os
from pathlib import Path
from svcserver.launcher.crashes import hard_crashes
with hard_crashes(Path(os.environ["LOCALAPPDATA"], "svc-launcher", "state")):
    os.abort()
"""


def test_crash_in_compiled_code_leaves_a_report(pc: WindowsPC) -> None:
    with pc.start(python_program(), "-c", HARD_CRASH) as process:
        process.communicate(timeout=60)
    assert process.returncode != 0
    report = own(pc) / "state" / "svc-launcher-crash.log"
    assert "Fatal Python error: Aborted" in report.read_text()
    assert is_private(report)


def cut(file: Path) -> None:
    """Keep only the first half of a file, as if the disk had been full."""
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


DAMAGES: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("python311.dll", Path.unlink),
    ("python311.zip", Path.unlink),
    ("python311.zip", cut),
    ("start.pyc", Path.unlink),
    ("start.pyc", cut),
    ("_ctypes.pyd", Path.unlink),
)


# slow: each damaged launcher starts under Wine
def test_damaged_folder_is_reported_with_the_cure(pc: WindowsPC) -> None:
    for number, (name, damage) in enumerate(DAMAGES):
        folder = pc.prefix / "drive_c" / f"damaged {number}"
        shutil.copytree(pc.unzipped, folder)
        damage(folder / "app" / name)
        with pc.start(folder / "svc-launcher-cli.exe", "--version") as process:
            output, _ = process.communicate(timeout=60)
        assert process.returncode == 1, name
        assert name.removesuffix(".pyd") in output or "app" in output
        assert "Unzip the whole folder again" in output
    with pc.start(folder.with_name("damaged 1") / "svc-launcher.exe") as process:
        text = pc.python(DIALOG)
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert "python311.zip" in text
    assert "Unzip the whole folder again" in text


STARTER = """
import subprocess, sys
from pathlib import Path
subprocess.Popen([str(Path(sys.argv[0]).with_name("Real.exe"))])
sys.exit(3)
"""
REAL = """
import ctypes, time
from pathlib import Path
user, folder = ctypes.WinDLL("user32"), Path(__file__).parent
user.CreateWindowExW.restype = ctypes.c_void_p
nothing = [ctypes.c_void_p()] * 4
window = user.CreateWindowExW(0, "STATIC", "game", 0x10CF0000, 0, 0, 99, 99, *nothing)
window, message = ctypes.c_void_p(window), ctypes.create_string_buffer(48)
(folder / "runs").touch()
while (folder / "deaf").exists() or user.IsWindow(window):
    while user.PeekMessageW(message, None, 0, 0, 1):
        user.DispatchMessageW(message)
    time.sleep(0.1)
    if (folder / "ends").exists():
        break
"""
PLAY = """
import ctypes, os, time
from pathlib import Path
from twisted.internet.task import Clock
from svcserver.launcher.playing import LOOK_S, PATIENCE_S, Game
folder, clock, ended = Path(FOLDER), Clock(), []
game = Game(clock, ended.append)
ctypes.WinDLL("user32").GetDesktopWindow()  # starts Wine's desktop, which else joins the job
game.start([str(folder / "Starter.exe")], str(folder), os.environ)

def wait(has_happened):
    until = time.monotonic() + 60
    while not has_happened() and time.monotonic() < until:
        time.sleep(0.1)

def has_ended():
    clock.advance(LOOK_S / 10)
    return not game.running

wait((folder / "runs").exists)
for _ in range(20):
    has_ended()
    time.sleep(0.1)
print(game.running, flush=True)
"""
ENDS = {
    "by itself": """
(folder / "ends").touch()
wait(has_ended)
print(ended == [3])  # the starter's exit status
""",
    "when its windows close": """
game.stop()
wait(has_ended)
print(clock.seconds() < PATIENCE_S and not ended)
""",
    "when it is killed": """
(folder / "deaf").touch()
game.stop()
time.sleep(1)
clock.pump([LOOK_S] * 4)
print(game.running)
clock.pump([LOOK_S] * round(PATIENCE_S / LOOK_S))
wait(has_ended)
""",
    "with the launcher": "os._exit(0)",
}


# slow: 40 s: a starter and a game start under Wine, four times
@pytest.mark.parametrize("how", ENDS)
def test_game_runs_until_the_last_process_of_its_starter_ends(
    pc: WindowsPC, tmp_path: Path, how: str
) -> None:
    game = tmp_path / "game"
    game.mkdir()
    for name, text in (("Starter", STARTER), ("Real", REAL)):
        shutil.copy(python_program(), game / f"{name}.exe")
        (game / f"{name}.py").write_text(text)
    output = pc.python(f"FOLDER = {on_windows(game)!r}\n{PLAY}{ENDS[how]}")
    assert "False" not in output
    assert "True" in output
    eventually(lambda: not pc.runs("Real.exe"))


DOWNLOADS = """
import os
from pathlib import Path
from svcserver.launcher.places import downloads_here
print(downloads_here(os.environ, Path.home()))
"""
FOLDERS = r"HKCU\Software\Microsoft\Windows\CurrentVersion\Explorer\User Shell Folders"


def test_moved_downloads_folder_is_found(pc: WindowsPC) -> None:
    assert pc.python(DOWNLOADS).strip() == rf"C:\users\{pc.user.name}\Downloads"
    (pc.prefix / "drive_c" / "In").mkdir()
    number = "{374DE290-123F-4565-9164-39C4925E467B}"
    pc.run("reg", "add", FOLDERS, "/v", number, "/d", r"C:\In", "/f")
    assert pc.python(DOWNLOADS).strip() == r"C:\In"


ON_DISK = r"""
import os, sys, threading, time
from pathlib import Path
from svcserver.launcher import locked_files
from svcserver.launcher.game_folder import GameFolder, PartialFile, Progress
from svcserver.launcher.listing import GameFile
from svcserver.launcher.private_files import write_private
import hashlib

root = Path(os.environ["LOCALAPPDATA"], "Spiele Żółw", "OneDrive - Jäger & Söhne (100%)")
secret = root / "keys.json"
write_private(secret, b"a\nb")
write_private(secret, b"c\nd")
print(secret.read_bytes() == b"c\nd")

content = b"hunt" * 1000
path = "/".join(["a folder with a long name " + "x" * 60] * 5) + "/Data.PAK"
file = GameFile(path, len(content), hashlib.sha256(content).hexdigest())
folder = GameFolder(root / "games")
[wanted] = folder.prepare([file])
part = PartialFile(folder, wanted)
part.resume(Progress())
part.write(content)
part.finish()
old = folder.place(path)
old.parent.mkdir(parents=True)
old.write_bytes(b"older")
os.chmod(old, 0o444)
held = open(old, "rb")
threading.Timer(1.5, held.close).start()
began = time.monotonic()
folder.put_in_place([file], Progress())
waited = time.monotonic() - began
print(1 < waited < 5, folder.compare([file], Progress(), thorough=True).whole, len(str(old)) > 260)
upper = GameFile(path.replace("Data.PAK", "DATA.pak"), file.size, file.sha256)
print(folder.compare([upper], Progress()).whole)

other = root / "other"
other.write_bytes(b"")
with open(secret, "rb"):
    began = time.monotonic()
    try:
        locked_files.replace(other, secret)
    except PermissionError:
        print(5 <= time.monotonic() - began < 8)
"""


def test_locked_long_and_foreign_names_are_written_privately(pc: WindowsPC) -> None:
    output = pc.python(ON_DISK)
    assert output.split() == ["True"] * 6
    [secret] = pc.local.rglob("keys.json")
    assert is_private(secret)


UPDATE = """
import io, os, zipfile
from pathlib import Path
from svcserver.launcher.own_program import UpdateFailed, WindowsProgram
from svcserver.launcher.view import VERSION

root = Path(os.environ["LOCALAPPDATA"], "Żółw", "program")
old = root / "0.0.1"
old.mkdir(parents=True)
(old / "svc-launcher.exe").write_bytes(b"old")
program = WindowsProgram(root, old, old.name)
whole = Path(ZIP).read_bytes()
broken = io.BytesIO()
with zipfile.ZipFile(io.BytesIO(whole)) as source, zipfile.ZipFile(broken, "w") as target:
    for entry in source.infolist():
        target.writestr(entry, b"" if entry.filename.endswith(".zip") else source.read(entry))
for version, content in (("9.0.0", whole), (VERSION, broken.getvalue()), (VERSION, whole[:-9])):
    try:
        program.add(version, content)
    except UpdateFailed:
        print(os.listdir(root) == [old.name])
program.add(VERSION, whole)
print((root / "next.txt").read_text() == VERSION)
"""


def test_update_that_does_not_start_leaves_the_old_version(pc: WindowsPC) -> None:
    path = "Z:" + str(windows_zip())
    assert pc.python(f"ZIP = {path!r}\n{UPDATE}").split() == ["True"] * 4


ADD = """
import os
from pathlib import Path
from svcserver.launcher.own_program import WindowsProgram
from svcserver.launcher.view import VERSION

root = Path(os.environ["LOCALAPPDATA"], "svc-launcher", "program")
WindowsProgram(root, root / VERSION, VERSION).add(NEWER, Path(ZIP).read_bytes())
"""


# slow: 30 s: six starts under Wine
def test_update_that_serves_no_page_is_undone_by_the_next_start(
    pc: WindowsPC, tmp_path: Path
) -> None:
    program = own(pc) / "program"
    assert "Type help" in typed(pc, pc.unzipped, "quit")
    [version] = (path.name for path in program.iterdir() if path.is_dir())
    zipped = on_windows(newer_zip(tmp_path, "9.9.9", left_out="/static/"))
    pc.python(f"NEWER, ZIP = '9.9.9', {zipped!r}\n{ADD}")
    assert "The launcher has crashed." in typed(pc, program, "quit")
    assert (program / "current.txt").read_text() == version
    output = typed(pc, program, "quit")
    assert "Version 9.9.9 of the launcher did not work on this PC." in output
    assert "Type help" in output
    zipped = on_windows(newer_zip(tmp_path, "9.9.10"))
    pc.python(f"NEWER, ZIP = '9.9.10', {zipped!r}\n{ADD}")
    assert "svc-launcher 9.9.10" in pc.run(program / "svc-launcher-cli.exe", "--version")
    assert "Type help" in typed(pc, program, "quit")
    eventually(lambda: (program / "current.txt").read_text() == "9.9.10")
    assert not (program / "tried.txt").exists()


def typed(pc: WindowsPC, folder: Path, line: str) -> str:
    """Start the launcher in ``folder`` with a console, type a line, and return its output."""
    command = (folder / "svc-launcher-cli.exe", "--no-browser", "--key-file")
    with pc.start(*command) as process:
        output, _ = process.communicate(f"{line}\n", 90)
    return output

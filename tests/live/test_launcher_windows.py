"""The launcher for Windows: the contents of its zip file, and its start under Wine.

Real processes are needed because Windows programs run under Wine.
"""

import posixpath
import re
import struct
import urllib.request
import zipfile
from functools import partial
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.packaging import recipe
from tests.support.wine import WindowsPC, compiled, inputs, need_wine, windows_pc, windows_zip

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[2]
MB = 1_000_000
IMPORTS = """
import importlib, pkgutil
count = 0
for package_name in ("http", "edge", "relay", "launcher"):  # which import what they need of kernel
    package = importlib.import_module(f"svcserver.{package_name}")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
        count += 1
print(count)
"""
KEY_STORE = """
import keyring
keyring.set_password("svc-launcher", "a host", "UUK_5a")
print(type(keyring.get_keyring()).__name__, keyring.get_password("svc-launcher", "a host"))
"""
PORT_HOLDER = """
import os, socket
from svcserver.launcher.port_in_use import program_on, windows_name, windows_process
with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
    print(windows_process("127.0.0.1", port) in (os.getpid(), 0))  # Wine 8 shows no process
    print(windows_name(os.getpid()))
    print(program_on("127.0.0.2", port))
"""


# slow: the zip is built
def test_the_zip_is_one_small_folder() -> None:
    file = windows_zip()
    with zipfile.ZipFile(file) as packed:
        entries = packed.infolist()
    assert {entry.filename.partition("/")[0] for entry in entries} == {"svc-launcher"}
    assert file.stat().st_size < 25 * MB
    assert sum(entry.file_size for entry in entries) < 60 * MB


def test_both_programs_have_icon_version_and_product_name() -> None:
    """A program of subsystem 2 opens no console, and a program of subsystem 3 opens a console."""
    icon = (ROOT / "packaging" / "windows" / "svc-launcher.ico").read_bytes()
    _, _, count = struct.unpack_from("<3H", icon)
    images = [struct.unpack_from("<2I", icon, 6 + 16 * number + 8) for number in range(count)]
    texts = ("ProductName", "svc launcher", "ProductVersion", version("svcserver"))
    with zipfile.ZipFile(windows_zip()) as packed:
        for name, subsystem in (("svc-launcher.exe", 2), ("svc-launcher-cli.exe", 3)):
            program = packed.read(f"svc-launcher/{name}")
            [header] = struct.unpack_from("<I", program, 0x3C)
            assert struct.unpack_from("<H", program, header + 0x5C) == (subsystem,)
            assert all(program.count(icon[at : at + size]) == 1 for size, at in images)
            for text in (*texts, name):
                assert f"{text}\0".encode("utf-16-le") in program, text


def test_the_windows_zip_holds_the_licence_of_each_part() -> None:
    with zipfile.ZipFile(windows_zip()) as packed:
        texts = {name.split("/")[2] for name in packed.namelist() if "/licenses/" in name}
        with zipfile.ZipFile(packed.open("svc-launcher/app/python311.zip")) as modules:
            names = modules.namelist()
    parts = {name.partition(".dist-info")[0] for name in names if name.endswith("/METADATA")}
    assert len(parts) > 20
    assert parts | {"CPython", "OpenSSL", "mingw-w64"} <= texts


def test_the_list_of_components_names_each_binary_with_its_version() -> None:
    bundle = windows_zip()
    script = recipe("launcher_windows.py")
    files = [
        (part, posixpath.normpath(f"app/{file}")) for part in script.PARTS for file in part.files
    ]
    listed = {file for _, file in files}
    wheels = [path for path in script.downloaded().glob("*.whl") if "panda3d" not in path.name]
    for wheel in wheels:
        listed |= {f"app/{name}" for name in zipfile.ZipFile(wheel).namelist()}
    with zipfile.ZipFile(bundle) as packed:
        paths = {name.partition("/")[2]: name for name in packed.namelist()}
        binaries = {name for name in paths if name.endswith((".exe", ".dll", ".pyd", ".zip"))}
        contents = {file: packed.read(paths[file]) for _, file in files}
    assert binaries <= listed
    assert {"app/python311.dll", "app/libcrypto-3.dll", "svc-launcher.exe"} <= binaries
    for part, file in files:
        if part.name in ("CPython", "OpenSSL", "Visual C++ runtime", "zlib"):
            written = (part.version.encode(coding) for coding in ("ascii", "utf-16-le"))
            assert any(text in contents[file] for text in written), (part, file)


def test_pinned_packages_are_the_listed_versions() -> None:
    script = recipe("launcher_windows.py")
    files = [name.split("_")[:2] for name in script.pinned_packages()]
    versions = {(name, text.removesuffix(".debian.tar.xz")) for name, text in files}
    for part, package in (("python3.11", "python3.11"), ("mingw-w64", "mingw-w64-x86-64-dev")):
        [listed] = (entry.version for entry in script.PARTS if entry.name == part)
        assert (package, listed) in versions


def test_only_the_pinned_compiler_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need_wine()
    script = recipe("launcher_windows.py")
    source, program = tmp_path / "a.c", tmp_path / "a.exe"
    source.write_text("int main(void) { return 0; }")
    for name in (script.COMPILER, f"{script.COMPILER}-win32"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert compiled(source, program).read_bytes()[:2] == b"MZ"
    monkeypatch.setattr(script, "SYSTEM", tmp_path)
    build = partial(script.run_compiler, inputs(), script.COMPILER, source, cwd=tmp_path)
    build()
    (tmp_path / script.ABSOLUTE[1]).write_text("a linker of another version")
    with pytest.raises(SystemExit, match="not the pinned version"):
        build()


def test_modules_are_compiled_by_debians_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_wine()
    script = recipe("launcher_windows.py")
    (tmp_path / "a.py").write_text("x = 1")
    monkeypatch.setattr("sys.executable", "/no/such/python")
    script.compile_modules(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["a.pyc"]
    monkeypatch.setattr(script, "PYTHON", tmp_path / "python3")
    with pytest.raises(SystemExit, match="is not Python"):
        script.main()


def test_packed_python_modules_have_debians_security_patches() -> None:
    with (
        zipfile.ZipFile(windows_zip()) as packed,
        zipfile.ZipFile(packed.open("svc-launcher/app/python311.zip")) as modules,
    ):
        for name, text in (
            ("zipfile", b"Overlapped entries"),  # CVE-2024-0450
            ("urllib/parse", b"_check_bracketed_netloc"),  # CVE-2024-11168
            ("email/generator", b"verify_generated_headers"),  # CVE-2024-6923
            ("http/client", b"_MIN_READ_BUF_SIZE"),  # CVE-2025-13836
        ):
            assert text in modules.read(f"{name}.pyc"), name


def page_of(pc: WindowsPC) -> str:
    """Start a launcher, end it, and return the page that it served."""
    with pc.start(pc.command[1], "--print-link", "--no-links", "--key-file") as process:
        assert process.stdout is not None
        try:
            link = next(filter(None, (re.search(r"http://\S+/", line) for line in process.stdout)))
            with urllib.request.urlopen(link[0], timeout=60) as reply:  # noqa: S310 - our own
                page: str = reply.read().decode()
        finally:
            process.kill()
    return page


# slow: a prefix of Wine is made, and the launcher starts twice
def test_the_windows_launcher_serves_its_page_under_wine(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        output = pc.launcher("--version")
        page = page_of(pc)
        state = pc.local / "svc-launcher" / "state" / "launcher.log"
        assert output.strip() == f"svc-launcher {version('svcserver')}"
        assert "<title>" in page
        assert state.is_file()


# slow: every module is loaded from the zip, under Wine
def test_every_module_and_the_windows_key_store_work(tmp_path: Path) -> None:
    with windows_pc(tmp_path) as pc:
        count = int(pc.python(IMPORTS))
        store = pc.python(KEY_STORE)
        holders = pc.python(PORT_HOLDER)
    assert count > 50
    assert store.split() == ["WinVaultKeyring", "UUK_5a"]
    assert holders.splitlines() == ["True", "python.exe", "another program"]

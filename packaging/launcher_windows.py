"""Builds the launcher for Windows on Debian 12: ``make launcher-windows`` puts a zip into dist/.

    python packaging/launcher_windows.py [DIST]

The zip holds one folder: two small programs, CPython for Windows, and one zip with all modules as
bytecode, which needs few files and starts quickly. CPython's libraries come from a wheel, its
standard library from Debian's source package with Debian's security patches, and the dependencies
from the wheels of ``launcher.lock``. The compiler comes from Debian's packages, which are unpacked
and not installed. All of them are pinned by hash. Two builds of a commit are identical byte for
byte.
"""

import filecmp
import hashlib
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import time
import zipfile
from functools import partial
from pathlib import Path
from typing import NamedTuple

import building
from building import ROOT, epoch, need, target, version
from launcher import LOCK, WINDOWS_LOCK, build_wheel, lay_out, run
from licenses import TEXTS
from suite import SUITE

OWN = ROOT / "packaging" / "windows"
BUNDLE = "svc-launcher-windows.zip"
FOLDER = "svc-launcher"
RUNTIME_LOCK = ROOT / "requirements" / "windows.lock"
DEBIAN_LOCK = ROOT / "requirements" / "debian.sha256"  # in sha256sum's format
FIRST_FIX = "CVE-2024-0450.patch"  # Debian's patches before it adapt CPython to Debian
SOURCE_PARTS = re.compile(r"^[^/]+/(Lib/(?!.*/tests?/)|PC/|Doc/license|LICENSE)")
DOWNLOADS = Path(sys.prefix) / "windows"
PYTHON = Path("/usr/bin/python3")  # Debian's: versions 3.11.x differ in the bytecode they make
RUNTIME_WHEEL = "panda3d-*.whl"
MODULES = "python311.zip"  # CPython looks for a zip of this name
LINUX_ONLY = ("jeepney", "secretstorage")  # the key store of Linux
COMPILER = "x86_64-w64-mingw32-gcc"
ABSOLUTE = ("x86_64-w64-mingw32-as", "x86_64-w64-mingw32-ld")  # called by their paths in SYSTEM
SYSTEM = Path("/usr/bin")


class Part(NamedTuple):
    """A part of the zip that is not in the locks; ``files`` are below the folder ``app``."""

    name: str
    version: str
    purl: str
    licence: str  # an SPDX id, or a name with spaces
    files: tuple[str, ...]


# what the launcher imports of CPython's own libraries; the others stay in the wheel
RUNTIME = (
    Part(
        "CPython",
        "3.11.9",
        "pkg:generic/python@3.11.9",
        "Python-2.0.1",
        (
            *("python311.dll", "_asyncio.pyd", "_ctypes.pyd", "_hashlib.pyd", "_overlapped.pyd"),
            *("_queue.pyd", "_socket.pyd", "select.pyd", "unicodedata.pyd"),
        ),
    ),
    Part("OpenSSL", "3.0.13", "pkg:generic/openssl@3.0.13", "Apache-2.0", ("libcrypto-3.dll",)),
    Part("libffi", "3.4", "pkg:generic/libffi@3.4", "MIT", ("libffi-8.dll",)),
    Part(
        "Visual C++ runtime",
        "14.00.24247",
        "pkg:generic/vcruntime@14.00.24247",
        "Microsoft Distributable Code",
        ("VCRUNTIME140.dll",),
    ),
)
PARTS = (
    *RUNTIME,
    Part("zlib", "1.3.1", "pkg:generic/zlib@1.3.1", "Zlib", ("python311.dll",)),
    Part(
        "python3.11",
        "3.11.2-6+deb12u8",
        f"pkg:deb/debian/python3.11@3.11.2-6%2Bdeb12u8?arch=source&distro={SUITE}",
        "Python-2.0.1",
        ("python311.zip", "python3.dll"),
    ),
    Part(
        "OpenSSL",
        "4.0.3",
        "pkg:generic/openssl@4.0.3",
        "Apache-2.0",
        ("cryptography/hazmat/bindings/_rust.pyd",),
    ),
    Part(
        "mingw-w64",
        "10.0.0-3",
        f"pkg:deb/debian/mingw-w64@10.0.0-3?arch=source&distro={SUITE}",
        "ZPL-2.1",
        ("../svc-launcher.exe", "../svc-launcher-cli.exe"),
    ),
)
# modules that nothing imports, by their path's beginning
UNUSED_LIBRARY = (
    *("test/", "idlelib/", "tkinter/", "turtledemo/", "lib2to3/", "ensurepip/", "distutils/"),
    *("pydoc_data/", "curses/", "sqlite3/", "dbm/", "venv/", "unittest/test/", "ctypes/test/"),
    *("turtle.", "msilib/", "wsgiref/", "site-packages/", "__phello__"),
)
UNUSED_PACKAGES = (
    *("twisted/conch/", "twisted/mail/", "twisted/names/", "twisted/words/", "twisted/trial/"),
    *("twisted/web/", "twisted/runner/", "twisted/pair/", "twisted/spread/", "twisted/news/"),
    *("cffi/", "pycparser/", "twisted/plugins/"),
)


def main() -> None:
    """Build the zip, and print its checksum, path and sizes."""
    is_debian = PYTHON.exists() and building.run(PYTHON, "-V").strip() == "Python 3.11.2"
    if not is_debian or platform.machine() != "x86_64":
        raise SystemExit(f"{PYTHON} is not Python 3.11.2 for amd64: build this on Debian 12")
    need("apt-get", "git")
    dist = target()
    inputs = downloaded()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        source = unpack_source(inputs, work)
        site = install(inputs, work)
        program = work / FOLDER
        app = program / "app"
        app.mkdir(parents=True)
        copy_runtime(inputs, app)
        add_modules(source / "Lib", site, app, work)
        compile_programs(source, app, work, inputs)
        copy_licences(source, site, program / "licenses", inputs)
        made = pack(program, dist / BUNDLE)
        unpacked = sum(path.stat().st_size for path in program.rglob("*") if path.is_file())
    print(f"{hashlib.sha256(made.read_bytes()).hexdigest()}  {made}")
    print(f"{made.stat().st_size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")


def downloaded() -> Path:
    """Return the folder of all inputs, downloaded once for the current locks."""
    texts = [lock.read_text() for lock in (LOCK, WINDOWS_LOCK, RUNTIME_LOCK, DEBIAN_LOCK)]
    folder = DOWNLOADS / hashlib.sha256("".join(texts).encode()).hexdigest()[:16]
    if not folder.exists():
        print(f"downloading CPython, the compiler and the dependencies into {DOWNLOADS} (once)")
        shutil.rmtree(DOWNLOADS, ignore_errors=True)
        fresh = folder.with_suffix(".partial")
        fresh.mkdir(parents=True)
        fetch_wheels(fresh)
        fetch_packages(fresh)
        unpack_compiler(fresh)
        fresh.rename(folder)
    return folder


def fetch_wheels(folder: Path) -> None:
    """Download the wheels for Windows; pip checks their hashes."""
    wanted = folder / "wheels.lock"
    pins = re.split(r"(?m)^(?=[a-z0-9-]+==)", LOCK.read_text())
    wanted.write_text("".join(pin for pin in pins if pin.partition("==")[0] not in LINUX_ONLY))
    locks = [word for lock in (wanted, WINDOWS_LOCK, RUNTIME_LOCK) for word in ("-r", lock)]
    only = ("--platform=win_amd64", "--python-version=3.11", "--only-binary=:all:", "--no-deps")
    run("pip", "download", "-q", "--require-hashes", *only, "-d", folder, *locks)


def pinned_packages() -> dict[str, str]:
    """Return the SHA-256 of each file from Debian by its name."""
    lines = DEBIAN_LOCK.read_text().splitlines()
    return {name: sha256 for sha256, name in (line.split() for line in lines)}


def fetch_packages(folder: Path) -> None:
    """Download CPython's source and the compiler with apt, from the servers that apt uses."""
    [python] = (part for part in PARTS if part.name == "python3.11")
    pins = pinned_packages()
    compiler = ["=".join(name.split("_")[:2]) for name in pins if name.endswith(".deb")]
    with tempfile.TemporaryDirectory() as work:
        sources, lists, cache = (Path(work, kind) for kind in ("sources.list", "lists", "cache"))
        for path in (lists / "partial", cache / "archives" / "partial"):
            path.mkdir(parents=True)
        line = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
        which = ("Created-By: Packages", "Origin: Debian", "Codename: bookworm", "Component: main")
        targets = building.run("apt-get", "indextargets", "--format", line, *which)
        if not targets:
            raise SystemExit("apt does not know Debian's packages yet: run apt-get update")
        entries = sorted({*targets.splitlines()})
        sources.write_text("".join(f"deb {entry}\ndeb-src {entry}\n" for entry in entries))
        apt = ["apt-get", "-qq", "-o", f"Dir::Etc::SourceList={sources}"]
        apt += ["-o", "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::lists={lists}"]
        apt += ["-o", f"Dir::Cache={cache}", "-o", "APT::Sandbox::User=root"]
        building.run(*apt, "update")
        words = ("source", "--download-only", f"{python.name}={python.version}")
        building.run(*apt, *words, cwd=folder)
        building.run(*apt, "download", *compiler, cwd=folder)
    for name, sha256 in pins.items():
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != sha256:
            raise SystemExit(f"apt-get has not fetched the {name} that {DEBIAN_LOCK} names")


def unpack_compiler(folder: Path) -> None:
    """Unpack the compiler's packages into the folder ``compiler``."""
    for package in sorted(folder.glob("*.deb")):
        building.run("dpkg-deb", "-x", package, folder / "compiler")
    # Debian's alternatives make this link; windres needs it
    (folder / "compiler/usr/bin" / COMPILER).symlink_to(f"{COMPILER}-win32")


def run_compiler(inputs: Path, program: str, *words: object, cwd: Path) -> None:
    """Run a program of the pinned compiler, or exit if it would use another version's parts."""
    tools = inputs / "compiler" / "usr"
    for name in ABSOLUTE:
        installed, pinned = SYSTEM / name, tools / "bin" / name
        if installed.exists() and not filecmp.cmp(installed, pinned, shallow=False):
            raise SystemExit(
                f"the compiler would use {installed}, which is not the pinned version: "
                "run apt-get remove binutils-mingw-w64-x86-64"
            )
    search = f"{tools / 'bin'}:{os.environ['PATH']}"
    libraries = str(tools / "lib" / "x86_64-linux-gnu")
    command = tools / "bin" / program
    building.run(command, *words, cwd=cwd, PATH=search, LD_LIBRARY_PATH=libraries)


def unpack_source(inputs: Path, work: Path) -> Path:
    """Unpack and patch the parts of CPython's source that are needed, and return its folder."""
    [archive] = inputs.glob("*.orig.tar.gz")
    with tarfile.open(archive) as packed:
        members = [entry for entry in packed if SOURCE_PARTS.search(entry.name)]
        packed.extractall(work, members)  # noqa: S202 - its hash is pinned
    source = work / members[0].name.partition("/")[0]
    [archive] = inputs.glob("*.debian.tar.xz")
    with tarfile.open(archive) as packed:
        packed.extractall(work)  # noqa: S202 - its hash is pinned
    patches = work / "debian" / "patches"
    names = (patches / "series").read_text().split()
    only = ("--include=Lib/*", "--exclude=Lib/**/test/*", "--exclude=Lib/test/*")
    # in the folder of a repository, git would patch only the files of that repository
    alone = {"GIT_CEILING_DIRECTORIES": str(work)}
    for name in names[names.index(FIRST_FIX) :]:
        building.run("git", "apply", *only, patches / name, cwd=source, **alone)
    return source


def install(inputs: Path, work: Path) -> Path:
    """Unpack the dependencies and the launcher itself, and return their folder."""
    lay_out(work / "launcher")
    site = work / "site"
    wheels = [path for path in inputs.glob("*.whl") if not path.match(RUNTIME_WHEEL)]
    for wheel in (*sorted(wheels), build_wheel(work / "launcher", work)):
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)  # noqa: S202 - its hash is pinned
    return site


def copy_runtime(inputs: Path, app: Path) -> None:
    """Copy CPython's libraries for Windows, and tell CPython where its modules are."""
    [wheel] = inputs.glob(RUNTIME_WHEEL)
    with zipfile.ZipFile(wheel) as packed:
        for name in (name for part in RUNTIME for name in part.files):
            (app / name).write_bytes(packed.read(f"deploy_libs/{name}"))
    (app / "python311._pth").write_text(f"{MODULES}\n.\n")
    shutil.copy(OWN / "start.py", app)  # compiled like the other modules


def add_modules(library: Path, site: Path, app: Path, work: Path) -> None:
    """Compile all modules and add them, most of them as one zip.

    Modules of packages with compiled parts stay files, because the compiled parts cannot be
    imported from a zip.
    """
    modules = work / "modules"
    on_disk = {path.relative_to(site).parts[0] for path in site.rglob("*.pyd")}
    on_disk |= {
        path.name for path in site.glob("svc_launcher-*")
    }  # by it, a host reads the version
    for source, unused in ((library, UNUSED_LIBRARY), (site, UNUSED_PACKAGES)):
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source)
            if path.is_file() and is_needed(name.as_posix(), unused):
                to = (app if name.parts[0] in on_disk else modules) / name
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, to)
    for folder in (modules, app):
        compile_modules(folder)
    pack(modules, app / MODULES)


def is_needed(name: str, unused: tuple[str, ...]) -> bool:
    """Return whether a file of a package is needed at run time."""
    if name.startswith(unused) or re.search(r"(^|/)(tests?|__pycache__)/", name):
        return False
    if ".dist-info/" in name:  # the versions, and the key stores that keyring finds by these
        return name.endswith(("/METADATA", "/entry_points.txt"))
    return name.endswith((".py", ".pyd")) or name.startswith("svcserver/")


def compile_modules(folder: Path) -> None:
    """Replace the modules in ``folder`` by their bytecode, which names no path of this machine."""
    options = ("-q", "-b", "--invalidation-mode", "unchecked-hash", "-s", folder)
    building.run(PYTHON, "-I", "-m", "compileall", *options, folder)
    for path in folder.rglob("*.py"):
        path.unlink()


def compile_programs(source: Path, app: Path, work: Path, inputs: Path) -> None:
    """Compile both programs, and python3.dll: some libraries call CPython through this DLL."""
    exported = re.findall(
        r"(?m)^EXPORT_(FUNC|DATA)\((\w+)\)", (source / "PC/python3dll.c").read_text()
    )
    lines = [f" {name}=python311.{name}{' DATA' * (kind == 'DATA')}" for kind, name in exported]
    (work / "python3.def").write_text("\n".join(["LIBRARY python3", "EXPORTS", *lines, ""]))
    # else the linker writes its time, and an address that it derives from the folder's name
    same = ("-s", "-Wl,--no-insert-timestamp,--disable-auto-image-base")
    gcc = partial(run_compiler, inputs, COMPILER, "-Os", "-Wall", "-Werror", *same, cwd=work)
    gcc("-shared", "-nostdlib", "-o", app / "python3.dll", "python3.def")
    for path in OWN.glob("svc-launcher.*"):
        shutil.copy(path, work)
    for name, kind in (("svc-launcher.exe", "-mwindows"), ("svc-launcher-cli.exe", "-mconsole")):
        text = version()
        numbers = ",".join([*re.findall(r"\d+", text)[:3], "0"])
        (work / "version.h").write_text(
            f'#define VERSION_NUMBERS {numbers}\n#define VERSION_TEXT "{text}"\n'
            f'#define FILE_NAME "{name}"\n'
        )
        windres = COMPILER.replace("gcc", "windres")
        run_compiler(inputs, windres, "svc-launcher.rc", "resources.o", cwd=work)
        made = app.parent / name
        gcc("-municode", kind, "-o", made, "svc-launcher.c", "resources.o")


def copy_licences(source: Path, site: Path, licenses: Path, inputs: Path) -> None:
    """Copy the licences of all parts; each part gets a folder."""
    parts = {"CPython": [source / name for name in ("LICENSE", "PC/crtlicense.txt")]}
    parts["CPython"].append(source / "Doc" / "license.rst")  # also of libffi, zlib and others
    parts["mingw-w64"] = [inputs / "compiler/usr/share/doc/mingw-w64-x86-64-dev/copyright"]
    for package in site.glob("*.dist-info"):
        forms = (*TEXTS, "sboms/*")  # the licences of the Rust libraries compiled into it
        files = {path for form in forms for path in package.glob(form) if path.is_file()}
        parts[package.name.removesuffix(".dist-info")] = sorted(files)
        if package.name.startswith("cryptography-"):  # OpenSSL is under the same licence
            parts["OpenSSL"] = list(package.rglob("LICENSE.APACHE"))
    for name, files in parts.items():
        (licenses / name).mkdir(parents=True)
        if not files:
            raise SystemExit(f"{name} has no licence's text: add it to TEXTS in licenses.py")
        for file in files:
            shutil.copyfile(file, licenses / name / file.name)


def pack(folder: Path, file: Path) -> Path:
    """Pack a folder into a zip, sorted by name and with the build's time."""
    made = time.gmtime(max(epoch(), building.OLDEST))[:6]
    root = folder if file.name == MODULES else folder.parent
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for path in sorted(folder.rglob("*")):
            # folders too: without an entry, Python finds no package that has no __init__.py
            end = "/" if path.is_dir() else ""
            entry = zipfile.ZipInfo(f"{path.relative_to(root).as_posix()}{end}", made)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if end else 0o644) << 16
            packed.writestr(entry, b"" if end else path.read_bytes())
    return file


if __name__ == "__main__":
    main()

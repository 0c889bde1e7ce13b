"""Hostile archives: each is rejected with a one-line error message, and no file is written."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from svcserver.ctl.backup import archive
from svcserver.ctl.backup.archive import DamagedBackup
from svcserver.kernel import json
from tests.ctl.backup.test_archive import CONTENTS, PARTS, ArchiveCase, as_dict
from tests.support.effort import tried
from tests.support.proves import proves

ZEROS = "0" * 64
GOOD = {**as_dict(), "form": 1, "files": dict(CONTENTS.files)}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False)
    | st.text(max_size=20) | st.sampled_from(["/", "", "..", "/host", ZEROS, "sqlite", "a\0b"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)  # fmt: skip


def packed(*entries: tuple[tarfile.TarInfo, bytes], tail: bytes = b"") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for head, data in entries:
            tar.addfile(head, io.BytesIO(data))
    return gzip.compress(out.getvalue() + tail, 1)


def entry(name: str, data: bytes = b"", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    head = tarfile.TarInfo(name)
    head.size = len(data)
    for field, value in more.items():
        setattr(head, field, value)
    return head, data


def contents(**changed: Any) -> tuple[tarfile.TarInfo, bytes]:
    return entry(archive.CONTENTS, json.dump({**GOOD, **changed}))


def whole() -> list[tuple[tarfile.TarInfo, bytes]]:
    return [contents(), *(entry(name, bytes(part)) for name, part in PARTS.items())]  # type: ignore[arg-type]


def listing(name: str) -> tuple[tarfile.TarInfo, bytes]:
    return contents(files={**CONTENTS.files, name: archive.digest_of(b"x")})


class HostileTests(ArchiveCase):
    def refused(self, data: bytes, why: str = "") -> None:
        """Check that the archive is rejected in one short line.

        Also check that it writes no file outside its folder.
        """
        self.file.write_bytes(data)
        into = self.fresh()
        refused = str(self.assertRaises(DamagedBackup, archive.unpack, self.file, into))
        self.assertIn(why, refused)
        self.assertLess(len(refused), 200)
        self.assertTrue(refused.isprintable(), refused)
        self.assertEqual([path.name for path in into.parent.iterdir()], ["into"])

    def test_the_unchanged_parts_of_the_attacks_are_a_valid_backup(self) -> None:
        self.file.write_bytes(packed(*whole()))
        contents = archive.unpack(self.file, self.fresh())
        self.assertEqual(contents.files, CONTENTS.files)

    @proves("svcctl backup: a damaged one is noticed")
    def test_a_list_of_contents_has_the_types_and_bounds_of_ours(self) -> None:
        for changed in (
            {"files": []},
            {"files": list(CONTENTS.files)},
            {"files": {}},
            {"files": {"files/a": ZEROS}},
            {"files": {**CONTENTS.files, "files/a": 5}},
            {"files": {**CONTENTS.files, "files/a": "no digest"}},
            {"folder": "/"},
            {"folder": "//"},
            {"folder": ""},
            {"folder": "host"},
            {"folder": None},
            {"folder": "/a\0b"},
            {"folder": "/" + "a" * 5000},
            {"data": "/"},
            {"data": ["/host"]},
            {"kind": "mysql"},
            {"kind": []},
            {"made": "now"},
            {"made": True},
            {"secrets": 1},
            {"version": None},
            {"left_out": "files"},
            {"left_out": [None]},
            {"counted": None},
            {"counted": {"tables": [], "characters": ""}},
            {"counted": {"tables": {"accounts": "1"}, "characters": ""}},
            {"counted": {"tables": {}, "characters": None}},
            {"counted": {"tables": {}, "characters": "", "more": 1}},
            {"form": [1]},
            {"more": 1},
        ):
            self.refused(packed(contents(**changed), *whole()[1:]), "the backup")
        for name in ("files", "/etc/passwd", "other/a", "files/../../a", "files/.init.json"):
            self.refused(packed(listing(name), *whole()[1:], entry(name, b"x")))
        deep = "files/" + "a/" * 2000 + "x"
        self.refused(packed(listing(deep), *whole()[1:], entry(deep, b"x")), "not an allowed name")
        many = {**CONTENTS.files, **{f"files/{number}": ZEROS for number in range(2500)}}
        self.refused(packed(contents(files=many), *whole()[1:]), "too many files")
        for text in (b"", b"{", b"[" * 5000, b"null", b'{"form":1}', b"\xff", b"{}" + b" " * 99):
            self.refused(packed(entry(archive.CONTENTS, text)), "cannot be read")
        self.refused(
            packed(entry(archive.CONTENTS, b" " * (archive.MAX_CONTENTS + 1))), "not a backup"
        )

    def test_entries_that_are_no_listed_regular_file_are_refused(self) -> None:
        for kind in (
            tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE,
            tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK, tarfile.XGLTYPE, b"S", b"Z",
        ):  # fmt: skip
            odd = entry("files/metagame.env", b"", type=kind, linkname="/etc/passwd")
            self.refused(packed(contents(), odd, *whole()[1:]))
            self.refused(packed(odd, *whole()))
        self.refused(
            packed(*whole(), entry("files/metagame.env", b"PORT=1\n")), "not in the backup's list"
        )
        self.refused(packed(*whole(), contents()), "not in the backup's list")
        self.refused(packed(contents(), contents(), *whole()[1:]), "not in the backup's list")
        self.refused(packed(*whole()[1:], contents()), "not a backup")
        self.refused(packed(*whole()[:2]), "is missing")
        self.refused(packed(*whole(), entry("files/a\x1b[2J", b"x")), "not in the backup's list")

    def test_an_extended_header_with_odd_fields_is_refused(self) -> None:
        long = f"files/{'n' * 150}\u00e9.json"
        self.file.write_bytes(packed(listing(long), *whole()[1:], entry(long, b"x")))
        self.assertTrue((self.unpacked() / long).is_file())
        for records in (
            {"size": "-1"},
            {"size": "-512"},
            {"size": "99999999999"},
            {"size": "9" * 5000},
            {"size": "x"},
            {"path": "../out"},
            {"path": "x" * 20_000},
            {"path": "files/a\0b"},
            {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"},
            {"GNU.sparse.size": "99999999999"},
            {"linkpath": "/etc/passwd"},
            {"hdrcharset": "BINARY"},
        ):
            odd = entry("files/metagame.env", b"PORT=1\n", pax_headers=records)
            self.refused(packed(*whole()[:2], odd), "")

    def test_headers_with_wrong_numbers_are_refused(self) -> None:
        plain = gzip.decompress(packed(*whole()))
        for size in (b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777\0", b"x" * 12, b"\0" * 12):
            for at in range(0, len(plain), tarfile.BLOCKSIZE):
                if plain[at : at + 1] in (b"b", b"d", b"f"):  # backup.json, database, files/...
                    head = bytearray(plain[at : at + tarfile.BLOCKSIZE])
                    head[124:136] = size
                    head[148:156] = b" " * 8
                    head[148:156] = b"%06o\0 " % sum(head)
                    changed = plain[:at] + bytes(head) + plain[at + tarfile.BLOCKSIZE :]
                    self.refused(gzip.compress(changed, 1))

    @proves("svcctl backup: a damaged one is noticed")
    def test_an_archive_with_data_after_its_end_is_refused(self) -> None:
        good = packed(*whole())
        for more in (b"x", b"\0", good, gzip.compress(b""), b"\x1f\x8b"):
            self.refused(good + more, "data after its end")
        self.refused(packed(*whole(), tail=b"\0" * 20_000), "data after its end")
        self.refused(packed(*whole(), tail=b"hidden"), "data after its end")
        self.refused(gzip.compress(b"\0" * 50_000) + good, "")

    def test_a_long_header_of_gzip_is_read_in_pieces(self) -> None:
        good = packed(*whole())
        named = good[:3] + b"\x08" + good[4:10] + b"n" * 3_000_000 + b"\0" + good[10:]
        self.file.write_bytes(named)
        self.assertTrue((self.unpacked() / "database").is_file())

    def test_a_file_that_is_cut_anywhere_is_refused(self) -> None:
        good = packed(*whole())
        for at in range(0, len(good), 7):
            self.refused(good[:at], "the backup")

    def unpacked(self) -> Path:
        into = self.fresh()
        archive.unpack(self.file, into)
        return into


Change = tuple[str, int, int, int]
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["flip", "cut", "zero", "copy", "swap", "header"]),
        st.integers(0, 2**20),
        st.integers(0, 2**20),
        st.integers(1, 255),
    ),
    min_size=1,
    max_size=4,
)


def changed(plain: bytes, changes: list[Change]) -> bytes:
    data, block = bytearray(plain), tarfile.BLOCKSIZE
    for how, first, second, value in changes:
        at, target = first % len(data), second % len(data)
        blocks = at - at % block, target - target % block
        if how == "flip":
            data[at] ^= value
        elif how == "cut":
            del data[at : at + value]
        elif how == "zero":
            data[at : at + value] = bytes(len(data[at : at + value]))
        elif how == "copy":
            data[blocks[0] : blocks[0]] = data[blocks[1] : blocks[1] + block]
        elif how == "swap":
            here, there = data[blocks[0] :][:block], data[blocks[1] :][:block]
            data[blocks[0] : blocks[0] + block] = there
            data[blocks[1] : blocks[1] + block] = here
        else:  # a header with a correct checksum, so that the reader accepts it
            head = data[blocks[0] : blocks[0] + block]
            if len(head) == block:
                head[first % 345] ^= value
                head[148:156] = b" " * 8
                head[148:156] = b"%06o\0 " % sum(head)
                data[blocks[0] : blocks[0] + block] = head
        data = data or bytearray(1)
    return bytes(data)


class MutatedTests(ArchiveCase):
    def same_or_refused(self, data: bytes) -> None:
        """Check that the archive has the same content or is rejected in one line.

        In both cases it must write no file outside its folder.
        """
        self.file.write_bytes(data)
        into = self.fresh()
        try:
            archive.unpack(self.file, into)
        except (DamagedBackup, OSError) as why:
            self.assertNotIn("\n", str(why))
        else:
            files = {name: (into / name).read_bytes() for name in PARTS}
            self.assertEqual(files, PARTS)
        self.assertEqual([path.name for path in into.parent.iterdir()], ["into"])

    @proves("svcctl backup: a damaged one is noticed")
    def test_a_changed_archive_is_the_same_or_refused(self) -> None:
        plain = gzip.decompress(self.file.read_bytes())

        @tried(150)
        @given(CHANGES)
        def mutated(changes: list[Change]) -> None:
            self.same_or_refused(gzip.compress(changed(plain, changes), 1))

        mutated()

    @proves("svcctl backup: a damaged one is noticed")
    def test_a_changed_list_of_contents_is_read_or_refused(self) -> None:
        rest = whole()[1:]

        @tried(150)
        @given(st.sampled_from(sorted(GOOD)), VALUES)
        def mutated(name: str, value: Any) -> None:
            self.same_or_refused(packed(contents(**{name: value}), *rest))

        mutated()

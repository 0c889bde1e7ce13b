"""Coverage-guided fuzzing of the chat: frames, stanzas, and what other players receive."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from svcserver.chat import stanza
from tests.chat.fixture import DOMAIN, account, resource
from tests.chat.sockets import masked

SECONDS = 60
NICK = f"Player1:{account(1)}:{resource(1)}"
MUC = f"muc.{DOMAIN}"
STANZAS = (
    f'<open xmlns="{stanza.FRAMING}" to="{DOMAIN}" version="1.0"/>',
    f'<auth xmlns="{stanza.SASL}" mechanism="PLAIN">AGEAYg==</auth>',
    f'<iq type="set" id="b"><bind xmlns="{stanza.BIND}"><resource>r</resource></bind></iq>',
    f'<presence to="City-1@{MUC}/{NICK}"><x xmlns="{stanza.MUC}"/></presence>',
    f'<presence type="unavailable" to="City-1@{MUC}/{NICK}"/>',
    "<presence><show>away</show><status>a &amp; b</status></presence>",
    f'<message type="groupchat" to="City-1@{MUC}" id="m"><body>a &lt; b</body></message>',
    f'<message type="chat" to="{account(2)}@{DOMAIN}" id="w"><body>psst</body></message>',
    f'<iq type="get" id="p"><ping xmlns="{stanza.PING}"/></iq>',
    '<iq type="set" id="l"><query xmlns="jabber:iq:auth"/></iq>',
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]><a xml:lang="en">&b;<!-- --></a>',
    "<a><![CDATA[<b>]]></a>",
)
WORDS = [
    "<!DOCTYPE a [",
    "<!ENTITY b 'c'>",
    "]>",
    "&b;",
    "&lt;",
    "&#0;",
    "&#x9;",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?",
    "?>",
    "<x/>",
    "<body>",
    "</body>",
    " xmlns=",
    " xml:lang='",
    "🐉",
    " type='unavailable'",
    " type='error'",
    "conference.",
    "muc.",
    ":UID-",
    "Party-1",
    "Guild-1",
]


def corpus(folder: Path) -> Path:
    """Write the fuzzer's first inputs: each kind of stanza, from a player and from a stranger."""
    folder.mkdir()
    for number, text in enumerate(STANZAS):
        Path(folder, f"stanza{number}").write_bytes(b"\0" + text.encode())
        Path(folder, f"frame{number}").write_bytes(b"\xff" + masked(text.encode()))
    for opcode in (0, 1, 2, 8, 9, 10, 15):
        Path(folder, f"opcode{opcode}").write_bytes(b"\xff" + masked(b"\x03\xe8", opcode))
    return folder


def dictionary(file: Path) -> Path:
    """Write into ``file`` the words that the fuzzer may insert, and return the file."""
    lines = ("".join(f"\\x{byte:02x}" for byte in word.encode()) for word in WORDS)
    file.write_text("".join(f'"{line}"\n' for line in lines))
    return file


def test_no_bytes_raise_reach_others_unescaped_or_fill_the_log(tmp_path: Path) -> None:
    if importlib.util.find_spec("atheris") is None:
        pytest.skip("no wheel of atheris for this Python: make prove has said so")
    command = [sys.executable, "-m", "tests.prove.fuzz_chat", str(corpus(tmp_path / "corpus"))]
    command += [f"-dict={dictionary(tmp_path / 'words')}", f"-artifact_prefix={tmp_path}/"]
    limits = [f"-max_total_time={SECONDS}", "-max_len=4096", "-timeout=10", "-rss_limit_mb=1024"]
    ran = subprocess.run(
        [*command, *limits],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS + 60,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-1_000:]
    assert "DONE" in ran.stderr, ran.stderr[-1_000:]

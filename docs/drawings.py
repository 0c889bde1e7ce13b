"""The drawings of the pages, drawn from mermaid blocks in advance, so that readers need no network.

    python docs/drawings.py

This program draws new drawings into ``docs/static/drawings`` and removes those that no page uses.
It needs chromium and npm, which downloads mermaid's script. ``make docs`` needs neither, and fails
if a drawing is missing. A drawing's file name is the beginning of its text's SHA-256.
"""

import base64
import hashlib
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

DOCS = Path(__file__).parent
FOLDER = DOCS / "static" / "drawings"
FENCE = re.compile(r"(?ms)^```mermaid\n(.*?)^```$")
TITLE = re.compile(r"(?m)^\s*accTitle: (.*)$")
MERMAID = "mermaid@11.12.1"
INTEGRITY = (
    "UlIZrRariB11TY1RtTgUWp65tphtBv4CSq7vyS2ZZ2TgoMjs2nloq+wFqxiwcxlhHUvs7DPGgMjs2aeQxz5h9g=="
)
PATIENCE_S = 120
DRAW = """async ([id, text]) => {
    mermaid.initialize({startOnLoad: false, theme: "neutral", htmlLabels: false,
                        flowchart: {htmlLabels: false}});
    return (await mermaid.render(id, text)).svg;
}"""


def name_of(text: str) -> str:
    """Return the file name of the drawing of ``text``."""
    return f"{hashlib.sha256(text.strip().encode()).hexdigest()[:12]}.svg"


class Drawing(SphinxDirective):
    """A mermaid block of a page, shown as its drawing with accTitle as the alternative text."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        name, title = name_of(text), TITLE.search(text)
        if not (FOLDER / name).exists():
            raise self.error(f"not drawn yet: python docs/drawings.py ({name})")
        if title is None:
            raise self.error("a drawing needs words for those who do not see it: accTitle: ...")
        image = nodes.image(uri=f"/static/drawings/{name}", alt=title[1])
        whole = nodes.reference("", "", image, refuri=self._place(name))  # at its full size
        return [nodes.container("", nodes.paragraph("", "", whole), classes=["drawing"])]

    def _place(self, name: str) -> str:
        """Return the path of the drawing in the built site, relative to the page."""
        return "../" * self.env.docname.count("/") + f"_static/drawings/{name}"


def texts() -> Iterator[str]:
    """Yield the text of every drawing of the pages."""
    for page in sorted(DOCS.rglob("*.md")):
        yield from FENCE.findall(page.read_text(encoding="utf-8"))


def script(folder: Path) -> Path:
    """Return mermaid's script from its npm package; exit if the package's hash is unknown."""
    words = ["npm", "pack", "--silent", MERMAID, "--pack-destination", str(folder)]
    subprocess.run(words, check=True, timeout=PATIENCE_S, stdout=subprocess.DEVNULL)
    [packed] = folder.glob("*.tgz")
    if base64.b64encode(hashlib.sha512(packed.read_bytes()).digest()).decode() != INTEGRITY:
        raise SystemExit(f"{MERMAID} is not the package that it was")
    with tarfile.open(packed) as archive:
        archive.extract("package/dist/mermaid.min.js", folder, filter="data")
    return folder / "package/dist/mermaid.min.js"


def main() -> None:
    """Draw missing drawings, and remove those that are no longer used."""
    wanted = {name_of(text): text for text in texts()}
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.svg"):
        if old.name not in wanted:
            old.unlink()
    missing = {name: text for name, text in wanted.items() if not (FOLDER / name).exists()}
    if missing:
        draw(missing)
    print(f"{len(wanted)} drawings, {len(missing)} of them new")


def draw(missing: dict[str, str]) -> None:
    """Draw each text into the file with the given name."""
    sys.path.insert(0, str(DOCS.parent))
    from tests.live.real_browser import chromium

    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        page = browser.new_page()
        page.set_content("<!doctype html><body></body>")
        page.add_script_tag(path=script(Path(folder)))
        for name, text in missing.items():
            drawn = page.evaluate(DRAW, [f"drawing-{name[:12]}", text])
            (FOLDER / name).write_text(sized(drawn), encoding="utf-8")


def sized(drawn: str) -> str:
    """Return the drawing with an explicit width and height, which the page needs to place it."""
    box = re.search(r'viewBox="[^ ]+ [^ ]+ ([\d.]+) ([\d.]+)"', drawn)
    if box is None:
        raise SystemExit(f"a drawing without a box: {drawn[:200]}")
    wide, high = (round(float(group)) for group in box.groups())
    size = f'width="{wide}" height="{high}"'
    return (
        re.sub(r' style="max-width:[^"]*"', "", drawn.replace('width="100%"', size, 1), count=1)
        + "\n"
    )


if __name__ == "__main__":
    main()

"""The copyright holders and licences that packaging/licenses.py reads from package metadata."""

import tempfile
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.support.packaging import recipe

ROOT = Path(__file__).parents[2]
HOME = Path("/usr/lib/some/site-packages")


class LicenseTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.packages = Path(folder.name)

    def package(self, name: str, metadata: str, text: str, *files: str) -> None:
        folder = self.packages / f"{name}-1.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1\n{metadata}\n")
        if text:
            (folder / "LICENSE").write_text(text)
        names = (f"{folder.name}/METADATA", *files)
        (folder / "RECORD").write_text("".join(f'{path},sha256=a"b,1\n' for path in names))

    def paragraphs(self) -> list[str]:
        return recipe("licenses.py").paragraphs(self.packages, HOME).strip().split("\n\n")

    def test_each_package_has_a_paragraph_that_says_where_its_text_is(self) -> None:
        metadata = "License-Expression: LGPL-3.0-only\nAuthor: Ann"
        files = ("one/__init__.py", "one/two/three.py", "one.py", "../../../bin/one")
        self.package("one", metadata, "Copyright (C) 2007 Free Software Foundation", *files)
        self.assertEqual(
            self.paragraphs(),
            [
                "Files: usr/lib/some/site-packages/one-1.dist-info/*\n"
                " usr/lib/some/site-packages/one.py\n"
                " usr/lib/some/site-packages/one/*\n"
                "Copyright: Ann\n"
                "License: LGPL-3.0-only\n"
                " The text is in\n"
                " /usr/lib/some/site-packages/one-1.dist-info/LICENSE\n"
                " /usr/share/common-licenses/LGPL-3"
            ],
        )

    def test_the_name_of_a_licence_is_taken_from_whatever_says_it(self) -> None:
        mit = "Classifier: License :: OSI Approved :: MIT License"
        for number, (metadata, name) in enumerate(
            (
                ("License-Expression: MIT AND (Apache-2.0 OR PSF-2.0)", None),
                ("License: Apache License, Version 2.0", "Apache-2.0"),
                (f"License: Copyright (c) 2014\n        Permission ...\n{mit}", "MIT"),
                ("", "MIT"),
            )
        ):
            self.package(f"p{number}", metadata, "The MIT License (MIT)\n", f"p{number}.py")
            paragraph = self.paragraphs()[number]
            wanted = name or "MIT and (Apache-2.0 or PSF-2.0)"
            self.assertIn(f"\nLicense: {wanted}\n", paragraph)
            self.assertIn(f"\nCopyright: the authors of p{number}\n", paragraph)

    def test_a_nested_package_follows_the_package_whose_folder_it_uses(self) -> None:
        self.package("a", "License: MIT", "Copyright 2026 Ann\n", "z/plugins/a.py")
        self.package("z", "License: MIT", "Copyright (c) 2001\nZoe\n", "z/__init__.py", "z/b.py")
        of_z, of_a = self.paragraphs()
        self.assertIn("site-packages/z/*\nCopyright: 2001, those whom its text names\n", of_z)
        self.assertIn("site-packages/z/plugins/a.py\nCopyright: 2026 Ann\n", of_a)

    def test_a_package_without_a_licence_is_not_packed(self) -> None:
        self.package("one", "License: MIT", "", "one.py")
        error = self.assertRaises(SystemExit, self.paragraphs)
        self.assertIn("one 1 comes without a licence text: ask its authors", str(error))

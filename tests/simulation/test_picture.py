"""The timeline: players and places, with every fault marked and named."""

from itertools import pairwise
from xml.etree import ElementTree

from twisted.trial.unittest import SynchronousTestCase

from simulation import picture
from simulation.outcomes import Violation
from simulation.run import Moment, Result, Scenario

SVG = "{http://www.w3.org/2000/svg}"


def made() -> Result:
    """Return the result of a simulation with two players, three faults and one violation."""
    moments = [
        Moment(60.0, ("city", "away"), ()),
        Moment(120.0, ("city", "Hunt"), ("kill-metagame", "full <disk>")),
        Moment(180.0, ("away", "city"), ("cut-line",)),
    ]
    wrong = [Violation(130.0, "one leader", "two & more")]
    scenario = Scenario(7, 2, 180.0)
    return Result(scenario, "ab", wrong, 9, 8, 7, 1, 1, 180.0, 0.5, {200: 8}, moments, {})


class PictureTests(SynchronousTestCase):
    def test_the_picture_is_well_formed_and_numbers_the_faults(self) -> None:
        root = ElementTree.fromstring(picture.svg(made()))  # noqa: S314 - we made it
        lines = [element.findtext(f"{SVG}title") for element in root.iter(f"{SVG}line")]
        self.assertEqual(lines, ["0:02:00 kill-metagame, full <disk>", "0:03:00 cut-line"])
        texts = [element.text for element in root.iter(f"{SVG}text")]
        self.assertEqual(texts[:4], ["Ada_0", "Bo_1", "1", "2"])
        kinds = [element.findtext(f"{SVG}title") for element in root.iter(f"{SVG}rect")]
        self.assertEqual(kinds[:5], ["city", "away", "away", "hunt", "city"])

    def test_the_numbers_and_hours_of_a_month_do_not_overlap(self) -> None:
        month = made()
        faults = [Moment(at * 900.0, ("city", "away"), ("cut-line",)) for at in range(2880)]
        month.moments = faults
        root = ElementTree.fromstring(picture.svg(month))  # noqa: S314 - we made it
        rows: dict[str, list[tuple[float, str]]] = {}
        for element in root.iter(f"{SVG}text"):
            rows.setdefault(element.attrib["y"], []).append(
                (float(element.attrib["x"]), element.text or "")
            )
        for row in rows.values():
            for (x, text), (after, _) in pairwise(row):
                self.assertLess(x + 6.5 * len(text), after, text)
        lowest = max(float(entry.attrib["y2"]) for entry in root.iter(f"{SVG}line"))
        self.assertLess(lowest, picture.TOP)  # the marks hide no player
        hours = [text for _, text in next(row for row in rows.values() if row[0][1] == "0 h")]
        self.assertGreater(len(hours), 5)

    def test_the_page_names_faults_and_violations(self) -> None:
        page = picture.page(made())
        self.assertIn("<ol><li>0:02:00 kill-metagame, full &lt;disk&gt;</li><li>0:03:00 cut", page)
        self.assertIn("one leader: two &amp; more", page)

    def test_the_text_has_rows_for_players_and_faults(self) -> None:
        rows = picture.text(made()).splitlines()
        self.assertEqual([row.split() for row in rows[:2]], [["Ada_0", "cc."], ["Bo_1", ".Hc"]])
        self.assertEqual(rows[2], f"{'faults':>9}  !!")
        self.assertIn("WRONG one leader", rows[-1])

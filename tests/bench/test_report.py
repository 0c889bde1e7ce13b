"""The stored runs of the benches: how they are read, compared and drawn."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

from attrs import evolve
from twisted.trial.unittest import SynchronousTestCase

from bench.charts import latencies, page
from bench.functions import label, shares
from bench.kept import KeptRun, Measurement, Part, Profile, latest, quantiles_ms, verdict, write

HOSTILE = "<script>alert('&\"')</script>"
CURVE = [0.1, 0.2, 0.4, 0.5, 0.7, 1.0, 2.0, 3.0, 9.0, 30.0]
SAVE = Measurement(
    "save", 2_000.0, "/s", ratio=0.76, yardstick="a writer", limit="at least 0.75", latency_ms=CURVE
)


def run(at: str = "2026-11-28 06:30 UTC", *rows: Measurement) -> KeptRun:
    profile = Profile("save", 480.0, {"svcserver.web.front:answer": 0.25})
    parts = {"requests": Part(list(rows or [SAVE])), "functions": Part(profiles=[profile])}
    return KeptRun(at, "d7b63483", "EPYC, 2 cores", "3.11.7", [0.5, 2.0], "3 rounds", parts)


class KeptRunTests(SynchronousTestCase):
    def setUp(self) -> None:
        temporary = TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = Path(temporary.name)

    def test_written_run_is_read_back_unchanged(self) -> None:
        write(self.folder / "1.json", run())
        self.assertEqual(latest(self.folder), [run()])

    def test_latest_returns_the_two_newest_runs(self) -> None:
        for n in range(4):
            write(self.folder / f"2026-11-2{n}.json", run(str(n)))
        self.assertEqual([entry.at for entry in latest(self.folder)], ["3", "2"])

    def test_damaged_file_exits_with_one_line(self) -> None:
        good = self.folder / "good"
        write(good, run())
        text = good.read_bytes()
        for damaged in (b"", text[:300], b"[]", b"{}", text.replace(b"2000.0", b'"x"'), b"\xff"):
            (self.folder / "1.json").write_bytes(damaged)
            error = self.assertRaises(SystemExit, latest, self.folder)
            self.assertRegex(str(error), r"\A.*1\.json has no results.*Restore or remove it\.\Z")


class ComparisonTests(SynchronousTestCase):
    def test_change_beyond_the_noise_is_judged(self) -> None:
        for ratio, expected in ((0.57, "-25 %"), (0.38, "-50 %, worse"), (1.14, "+50 %, better")):
            self.assertEqual(verdict(evolve(SAVE, ratio=ratio), SAVE, same_machine=True), expected)

    def test_change_between_two_machines_is_not_judged(self) -> None:
        text = verdict(evolve(SAVE, ratio=0.38), SAVE, same_machine=False)
        self.assertEqual(text, "-50 %")

    def test_a_greater_value_is_worse_if_less_is_better(self) -> None:
        before = Measurement("idle", 12.0, "KiB", less=True)
        text = verdict(evolve(before, value=24.0), before, same_machine=True)
        self.assertEqual(text, "+100 %, worse")

    def test_no_verdict_is_given_for_zero_or_another_unit(self) -> None:
        zero = Measurement("idle", 0.0, "KiB")
        for previous in (None, zero, Measurement("idle", 1.0, "MiB")):
            self.assertEqual(verdict(evolve(zero, value=1.0), previous, True), "")


class PageTests(SynchronousTestCase):
    def test_names_from_a_file_are_escaped_everywhere(self) -> None:
        row = evolve(SAVE, name=HOSTILE, yardstick=HOSTILE, limit=HOSTILE, unit=HOSTILE)
        parts = {HOSTILE: Part([row], [Profile(HOSTILE, 1.0, {HOSTILE: 1.0})])}
        hostile = KeptRun(HOSTILE, HOSTILE, HOSTILE, HOSTILE, [0.0], HOSTILE, parts)
        html = page(hostile, hostile)
        self.assertNotIn("<script", html)
        self.assertNotIn('&"', html)

    def test_page_compares_with_the_previous_run(self) -> None:
        html = page(run("now", evolve(SAVE, ratio=0.38, good=False)), run("before"))
        for expected in ("-50 %, worse", "at least 0.75 MISSED", 'class="before"', "before</td>"):
            self.assertIn(expected, html)

    def test_page_loads_nothing_from_elsewhere(self) -> None:
        html = page(run(), None)
        self.assertEqual(re.findall(r"(?:src|href)=|url\(|@import|https?:", html), [])

    def test_charts_are_well_formed_for_extreme_figures(self) -> None:
        for value in (0.0, 1e-9, 1.0, 1e12):
            row = evolve(SAVE, ratio=value, latency_ms=[value] * len(CURVE))
            for chart in (page(run("", row), run("", row)), latencies([(row, None)])):
                for svg in re.findall(r"<svg.*?</svg>", chart, re.DOTALL):
                    ElementTree.fromstring(svg)  # noqa: S314 - we made it
                    self.assertNotRegex(svg, r"nan|inf|=\"-[\d.]+\" (?:width|height)")


class FiguresTests(SynchronousTestCase):
    def test_quantiles_are_exact_also_for_one_or_no_value(self) -> None:
        self.assertEqual(quantiles_ms([], [0.5]), [0.0])
        self.assertEqual(quantiles_ms([0.001], [0.01, 1.0]), [1.0, 1.0])
        self.assertEqual(
            quantiles_ms([n / 1e3 for n in range(1, 101)], [0.5, 0.99, 1.0]), [50.0, 99.0, 100.0]
        )

    def test_labels_of_functions_hide_the_machines_folders(self) -> None:
        for code, expected in (
            (("/srv/x/svcserver/web/front.py", 9, "answer"), "svcserver.web.front:answer"),
            (("/v/site-packages/twisted/web/http.py", 9, "f"), "twisted.web.http:f"),
            (("/usr/lib/python3.11/queue.py", 9, "put"), "queue:put"),
            (("", 9, "put"), "compiled:put"),
            (("~", 0, "<built-in method orjson.loads>"), "orjson.loads"),
            (("~", 0, "<method 'get' of 'dict' objects>"), "dict.get"),
        ):
            self.assertEqual(label(code), expected)

    def test_shares_leave_out_the_time_spent_waiting(self) -> None:
        seconds = {
            ("~", 0, "<method 'poll' of 'select.epoll' objects>"): 90.0,
            ("/a/queue.py", 9, "put"): 3.0,
            ("/a/queue.py", 1, "get"): 1.0,
        }
        self.assertEqual(shares(seconds, 1), {"queue:put": 0.75})

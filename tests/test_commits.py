"""The rules of CONTRIBUTING by which commit messages are accepted or rejected."""

from twisted.trial.unittest import SynchronousTestCase

from tests.commits import LONGEST, fault


class CommitTests(SynchronousTestCase):
    def test_a_short_subject_is_taken_with_and_without_a_body(self) -> None:
        for message in (
            "Show the host's name",
            "x" * LONGEST,
            "Show it\n\nThe reason.\n# a comment\n",
            'Revert "Show the very long subject of another commit, which somebody wrote before"',
            "fixup! Show the very long subject of another commit, which somebody wrote before",
        ):
            self.assertIsNone(fault(message), message)

    def test_a_long_stopped_merged_or_empty_subject_is_refused(self) -> None:
        for message in (
            "x" * (LONGEST + 1),
            "Show the host's name.",
            "Merge branch 'feature'",
            "",
            "# only a comment",
            "Show it\nwithout an empty line",
        ):
            self.assertIsNotNone(fault(message), message)

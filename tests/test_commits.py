"""The rules of CONTRIBUTING by which commit messages are accepted or rejected."""

import io
import subprocess
from contextlib import redirect_stdout
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from tests.commits import LONGEST, fault, since_release


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

    def test_check_without_git_tag_or_history_passes_with_one_line(self) -> None:
        shallow = mock.Mock(returncode=0, stdout="true\n")
        for git in (FileNotFoundError, [mock.Mock(returncode=128)], [shallow, shallow]):
            self.patch(subprocess, "run", mock.Mock(side_effect=git))
            with redirect_stdout(io.StringIO()) as printed:
                self.assertEqual(since_release(), 0)
            self.assertEqual(len(printed.getvalue().splitlines()), 1)

"""The tests. How long an example of hypothesis takes is no verdict: the machine may be busy."""

from __future__ import annotations

import sys

if {"_pytest", "twisted.trial.runner"} & set(sys.modules):  # not in a process that a test starts
    from hypothesis import settings

    settings.register_profile("any machine", deadline=None)
    settings.load_profile("any machine")

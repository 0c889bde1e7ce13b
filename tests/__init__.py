"""The tests. How long an example of hypothesis takes is no verdict: the machine may be busy.

What it draws is drawn from the test, so that a failure is one everywhere, not in one run of many;
with ``SVC_TEST_FRESH=1`` every run draws anew.

What tests ask is on this machine, also where a proxy leads to the registries of packages.
"""

from __future__ import annotations

import os
import sys

for _name in ("no_proxy", "NO_PROXY"):
    if (_named := os.environ.get(_name, "")) != "*":
        _here = ("127.0.0.1", "localhost", "::1")
        os.environ[_name] = ",".join(dict.fromkeys([*filter(None, _named.split(",")), *_here]))

if {"_pytest", "twisted.trial.runner"} & set(sys.modules):  # not in a process that a test starts
    from hypothesis import HealthCheck, settings

    from tests import tools

    os.environ["PATH"] = tools.search_path()  # the installed programs first
    settings.register_profile(
        "any machine",
        deadline=None,
        derandomize="SVC_TEST_FRESH" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("any machine")

"""The tests, and the settings of Hypothesis for all of them.

Hypothesis has no time limit per example, because the machine may be busy. Its random examples
depend only on the test, so that a failing test fails in every run; with ``SVC_TEST_FRESH=1`` they
differ between runs. Requests to this machine never use a proxy, even if the environment names a
proxy.
"""

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

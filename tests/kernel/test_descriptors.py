"""A process raises its limit of open files as far as the hard limit allows."""

import resource

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.descriptors import ENOUGH, raise_file_limit


class DescriptorTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, self.before)

    def test_the_soft_limit_is_raised_to_the_hard_limit(self) -> None:
        hard = self.before[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (900, hard))
        wanted = min(hard, ENOUGH) if hard > 0 else ENOUGH
        self.assertEqual(raise_file_limit(), wanted)
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), (wanted, hard))

    def test_a_sufficient_limit_stays(self) -> None:
        first = raise_file_limit()
        self.assertEqual(raise_file_limit(), first)

"""If the kernel refuses to change a process's rights, an error is raised."""

import ctypes
import errno
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel import rights


class Refusing:
    """A C library whose calls all fail."""

    def __getattr__(self, name: str) -> object:
        def refuse(*_: object) -> int:
            ctypes.set_errno(errno.EPERM)
            return -1

        return refuse


class RightsTests(SynchronousTestCase):
    def test_a_refusal_of_the_kernel_raises_permission_error(self) -> None:
        self.patch(rights, "IS_LINUX", True)
        with mock.patch.object(ctypes, "CDLL", lambda *_, **__: Refusing()):
            for act in (rights.reduce_rights, rights.keep_over_change_of_user):
                why = self.assertRaises(PermissionError, act)
                self.assertEqual(why.errno, errno.EPERM)

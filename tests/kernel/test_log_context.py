"""Events of the reactor without Twisted's log context."""

from twisted.python import log as twisted_log
from twisted.trial.unittest import SynchronousTestCase

from svcserver.kernel.log_context import call, remove_log_context
from svcserver.kernel.monotonic import monotonic_reactor


class LogContextTests(SynchronousTestCase):
    """The reactor calls the handlers of a connection's events without Twisted's log context."""

    def setUp(self) -> None:
        self.patch(twisted_log, "callWithLogger", twisted_log.callWithLogger)

    def test_the_reactor_of_every_service_has_no_log_context(self) -> None:
        twisted_log.callWithLogger = None
        monotonic_reactor()
        self.assertIs(twisted_log.callWithLogger, call)

    def test_the_function_is_called_with_its_arguments(self) -> None:
        remove_log_context()
        source = object()  # without a log prefix
        result = twisted_log.callWithLogger(source, divmod, 7, 2)
        self.assertEqual(result, (3, 1))

    def test_an_error_is_logged_and_goes_no_further(self) -> None:
        for error in (ValueError, SystemExit):
            self.assertIsNone(call(self, self.fail_with, error()))
            self.assertEqual(len(self.flushLoggedErrors(error)), 1)

    def test_an_interrupt_ends_the_program(self) -> None:
        self.assertRaises(KeyboardInterrupt, call, self, self.fail_with, KeyboardInterrupt())

    def fail_with(self, error: BaseException) -> None:
        """Raise the error."""
        raise error

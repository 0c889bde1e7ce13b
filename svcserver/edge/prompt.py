"""TLS whose small records leave at once; ``http/prompt.py`` says why."""

from __future__ import annotations

from OpenSSL import SSL
from twisted.protocols.tls import TLSMemoryBIOProtocol

from svcserver.http.prompt import send

_RECORDS = 2**15  # bytes taken from OpenSSL at a time


class PromptTLS(TLSMemoryBIOProtocol):
    """TLS whose small records leave at once."""

    def _flushSendBIO(self) -> None:
        try:
            records = self._tlsConnection.bio_read(_RECORDS)
        except SSL.WantReadError:
            return
        send(self.transport, records)

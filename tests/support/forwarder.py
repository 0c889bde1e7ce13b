"""A TCP forwarder between two programs, whose connections a test can cut and restore."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from types import TracebackType

from attrs import define, field


@define(eq=False)
class Forwarder:
    """A forwarder from ``port`` to another port of this machine, or to a Unix socket.

    ``rest_s`` is the pause after each 64 KB, which keeps a transfer in progress until a test cuts
    it.
    """

    to: int | Path
    port: int = 0
    rest_s: float = 0.0
    _listening: socket.socket | None = None
    _open: set[socket.socket] = field(factory=set)
    _cut: bool = False
    _lock: threading.Lock = field(factory=threading.Lock)

    def __enter__(self) -> Forwarder:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, why: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._listening is not None:
            self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
        self.cut()

    def drop(self) -> None:
        """Close every open connection; accept new connections."""
        with self._lock:
            self._end_open()

    def cut(self) -> None:
        """Close every open connection and every new connection."""
        with self._lock:
            self._cut = True
            self._end_open()

    def mend(self) -> None:
        """Forward new connections again after ``cut``."""
        with self._lock:
            self._cut = False

    def _end_open(self) -> None:
        for entry in self._open:
            try:
                entry.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # the connection has ended by itself

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                near, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(near,), daemon=True).start()

    def _connect(self) -> socket.socket:
        if isinstance(self.to, int):
            return socket.create_connection(("127.0.0.1", self.to))
        far = socket.socket(socket.AF_UNIX)
        far.connect(str(self.to))
        return far

    def _forward(self, near: socket.socket) -> None:
        with near, self._connect() as far:
            with self._lock:
                if self._cut:
                    return
                self._open |= {near, far}
            back = threading.Thread(target=self._pump, args=(far, near), daemon=True)
            back.start()
            self._pump(near, far)
            back.join()
            with self._lock:
                self._open -= {near, far}

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        """Forward bytes until one side closes the connection, then close the other side."""
        try:
            while data := source.recv(65_536):
                sink.sendall(data)
                time.sleep(self.rest_s)
        except OSError:
            pass
        for entry in (source, sink):
            try:
                entry.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

"""A server's faults, made between it and its clients: the server itself goes on."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType


class Relay:
    """Passes TCP connections on to a port of this machine, from a port of its own.

    While it hangs, connections are accepted and nothing is passed on. Once it has ended, they are refused until it
    begins again, on the same port.
    """

    def __init__(self, to: int) -> None:
        self._to = to
        self._passes = threading.Event()
        self._passes.set()
        self._mutex = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.port = 0
        self.begin()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self.go_on()

    def hang(self) -> None:
        self._passes.clear()

    def go_on(self) -> None:
        self._passes.set()

    def begin(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, args=[self._listening], daemon=True).start()

    def end(self) -> None:
        with self._mutex:
            self._shut(self._listening)
            self._listening.close()
            for each in self._sockets:
                self._shut(each)
            self._sockets.clear()

    @staticmethod
    def _shut(each: socket.socket) -> None:
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listening.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                with self._mutex:
                    self._sockets += [client, server]
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=[source, sink], daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 18):
                self._passes.wait()
                sink.sendall(data)
        self._shut(source)
        self._shut(sink)

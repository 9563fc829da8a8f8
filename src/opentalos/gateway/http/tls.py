"""TLS of the port: a context whose certificate can be replaced, and what handshakes come to."""

import ssl
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet


@dataclass(slots=True)
class HandshakeCounters:
    """Since the start. What was begun and is neither done nor failed was given up, or goes on."""

    begun: int = 0
    done: int = 0
    failed: int = 0  # no TLS, no common version, a certificate that was refused
    refused: int = 0  # too many were under way


class _Handshake(ssl.SSLObject):
    """One connection's TLS state; event loops do not tell how a handshake ended, so it does."""

    port: "TlsContext | None" = None
    refused = False

    def do_handshake(self) -> None:
        if self.refused:
            raise ssl.SSLError("too many handshakes are under way")
        port = self.port
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            if port is not None:
                port.counters.failed += 1
                port.under_way.discard(self)
            raise
        if port is not None:
            port.counters.done += 1
            port.under_way.discard(self)
            self.port = None


class TlsContext(ssl.SSLContext):
    """What the port listens with: each new connection gets the context given last to ``use``.

    A loop takes one context when it begins to listen, and asks it once per connection. Connections
    that are there keep the context they began with, so a new certificate disturbs none of them,
    and no session of an old context can be resumed under a new one.
    """

    counters: HandshakeCounters
    under_way: "WeakSet[ssl.SSLObject]"
    handshakes_max: int
    handshake_timeout_s: float
    _current: ssl.SSLContext

    @classmethod
    def serving(
        cls, context: ssl.SSLContext, *, handshakes_max: int, handshake_timeout_s: float
    ) -> "TlsContext":
        """The port's context, with the first one to use."""
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made.counters, made.under_way = HandshakeCounters(), WeakSet()
        made.handshakes_max, made.handshake_timeout_s = handshakes_max, handshake_timeout_s
        made.use(context)
        return made

    def use(self, context: ssl.SSLContext) -> None:
        """From the next connection on."""
        context.sslobject_class = _Handshake
        self._current = context

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Called by the loop for each connection; one too many fails with its first step."""
        made = self._current.wrap_bio(*args, **kwargs)
        assert isinstance(made, _Handshake)
        if len(self.under_way) >= self.handshakes_max:
            self.counters.refused += 1
            made.refused = True
        else:
            self.counters.begun += 1
            self.under_way.add(made)
            made.port = self
        return made

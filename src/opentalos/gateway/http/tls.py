"""TLS of the port: a context with a replaceable certificate, and handshake counters."""

import ssl
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet


@dataclass(slots=True)
class HandshakeCounters:
    """Since the start. Handshakes neither done nor failed were abandoned or are under way."""

    begun: int = 0
    done: int = 0
    failed: int = 0  # not TLS, no common version, a rejected certificate
    refused: int = 0  # too many under way


class _Handshake(ssl.SSLObject):
    """One connection's TLS state; counts the outcome, which event loops do not report."""

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
    """The port's context: each new connection gets the context last passed to ``use``.

    A loop keeps one context per listener and calls it once per connection. Existing connections
    keep their context, so a new certificate does not disturb them, and no session of an old
    context can be resumed under a new one.
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
        """The port's context, with the first context to use."""
        made = cls(ssl.PROTOCOL_TLS_SERVER)
        made.counters, made.under_way = HandshakeCounters(), WeakSet()
        made.handshakes_max, made.handshake_timeout_s = handshakes_max, handshake_timeout_s
        made.use(context)
        return made

    def use(self, context: ssl.SSLContext) -> None:
        """Use ``context`` for all following connections."""
        context.sslobject_class = _Handshake
        self._current = context

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        """Called by the loop for each connection; beyond the limit the handshake fails."""
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

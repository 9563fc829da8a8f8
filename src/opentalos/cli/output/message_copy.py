"""Copying of messages from a topic to stdout, for ``talos consume`` and ``talos table follow``."""

import sys
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opentalos.cli.connection.server_options import ServerOptions
from opentalos.cli.counts import counted
from opentalos.cli.input.interrupt import Interrupted
from opentalos.cli.output.progress import Progress
from opentalos.cli.output.sink import Sink
from opentalos.cli.output.visible import on_terminal, visible

if TYPE_CHECKING:
    from opentalos.cli.input.record_source import Wanted
    from opentalos.sdk.core.values import Record


def copy_messages(
    server: ServerOptions,
    wanted: "Wanted",
    render: "Callable[[Record], bytes | None]",
    count: int | None,
    *,
    raw: bool = False,
) -> None:
    """Write messages to stdout until the end, or until ``count`` are written.

    Args:   render: returns None to skip the message; raw: send control characters to a terminal.
    Raises: TalosError; Interrupted: Ctrl-C.
    """
    import asyncio

    shown = None if raw or not on_terminal() else visible
    copy = _Copy(Sink(), render, count, shown)
    try:
        asyncio.run(copy.run(server.config(), wanted))
    except KeyboardInterrupt:
        raise Interrupted(
            f"interrupted; {counted(copy.sink.messages, 'message')} written"
        ) from None


@dataclass(slots=True)
class _Copy:
    """The copy itself. Writes block the event loop, so a slow reader slows the fetches."""

    sink: Sink
    render: "Callable[[Record], bytes | None]"
    count: int | None
    shown: Callable[[bytes], bytes] | None  # applied to what goes to a terminal

    async def run(self, config: Any, wanted: "Wanted") -> None:
        """Run until the end, the count or an error; a cancelled copy has written whole messages."""
        from opentalos.cli.input.record_source import source_of
        from opentalos.sdk.aio import Client

        async with Client(config) as client:
            source = source_of(client, wanted)
            try:
                with Progress("messages") as progress:
                    async with aclosing(source.batches()) as batches:
                        async for records in batches:
                            chosen = self._chosen(records)
                            self.sink.write(self._lines(chosen))
                            await source.written(chosen[-1])
                            self._show(progress, source.total)
                            if self.sink.messages == self.count:
                                return
            finally:
                await source.close()

    def _lines(self, records: "list[Record]") -> list[bytes]:
        rendered = [self.render(record) for record in records]
        lines = [line for line in rendered if line is not None]
        return lines if self.shown is None else [self.shown(line) for line in lines]

    def _show(self, progress: Progress, total: int | None) -> None:
        if not sys.stdout.isatty():  # on a terminal it would mix with the messages
            progress.show(self.sink.messages, total)

    def _chosen(self, records: "list[Record]") -> "list[Record]":
        if self.count is None:
            return records
        return records[: self.count - self.sink.messages]

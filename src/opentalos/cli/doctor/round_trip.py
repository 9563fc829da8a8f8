"""A message put and read again: on a running server, else on one that is started for it."""

import contextlib
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentalos.cli.doctor.finding import Finding
from opentalos.cli.input.interrupt import ended_like_ctrl_c
from opentalos.model.errors import TalosError

if TYPE_CHECKING:
    from opentalos.sdk import ClientConfig

_START_S: Final = 60.0
_STOP_S: Final = 10.0
_DEADLINE_S: Final = 20.0


def check_round_trip(config: "ClientConfig | None") -> tuple[Finding, float | None]:
    """Put and read a message in a topic of its own; ``config`` None: on a temporary server.

    Also the Unix seconds of the server when it stored the message, if it did.
    """
    where = "a temporary server" if config is None else config.endpoints[0]
    try:
        with contextlib.ExitStack() as undo:
            reached = config or undo.enter_context(temporary_server())
            spent_ms, stored_s = _put_and_read(reached)
    except (TalosError, OSError) as error:
        remedy = (
            "see its log" if config is None else "is it running, and may this key create topics?"
        )
        return Finding("messages", "problem", f"no round trip on {where}: {error}", remedy), None
    text = f"put and read a message on {where} in {spent_ms:.0f} ms"
    return Finding("messages", "ok", text), stored_s


@contextlib.contextmanager
def temporary_server() -> Iterator["ClientConfig"]:
    """A server in a folder of its own, with the settings of a first start; gone at the end.

    Raises: OSError: it did not start, with the last line of its log.
    """
    from opentalos.sdk import ClientConfig

    with ended_like_ctrl_c(), tempfile.TemporaryDirectory(prefix="talos-doctor-") as made:
        folder = Path(made)
        command = [sys.executable, "-m", "opentalos.cli.main", "serve"]
        command += ["--data", str(folder / "data"), "--listen", "127.0.0.1:0", "--supervised"]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        try:
            assert server.stdout is not None
            line = server.stdout.readline().strip()
            if not line.startswith("ready "):
                said = (folder / "log").read_text(errors="replace").strip().rpartition("\n")[2]
                raise OSError(f"it did not start: {said}")
            key_id, _, secret = (folder / "data" / "root.key").read_text().strip().partition(":")
            yield ClientConfig(
                endpoints=(line.removeprefix("ready "),), key_id=key_id, secret=secret
            )
        finally:
            _stop(server)


def _stop(server: "subprocess.Popen[str]") -> None:
    if server.poll() is None:
        server.send_signal(signal.SIGTERM)
    try:
        server.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            pipe.close()


def _put_and_read(config: "ClientConfig") -> tuple[float, float]:
    """Milliseconds of a put and a get, and when it was stored. Raises: TalosError; OSError."""
    from dataclasses import replace

    from opentalos.sdk import Client, Message, SimpleConsumer, SimpleProducer, TalosAdmin

    name, sent = f"talos-doctor-{secrets.token_hex(6)}", secrets.token_bytes(64)
    with Client(replace(config, deadline_s=_DEADLINE_S)) as client:
        admin = TalosAdmin(client)
        admin.topics.create(name, partitions=1)
        try:
            begun = time.perf_counter()
            SimpleProducer(client, name, 0).put([Message(data=sent)])
            found = SimpleConsumer(client, name).fetch(0, 0)
            spent_ms = (time.perf_counter() - begun) * 1_000
        finally:
            admin.topics.delete(name)
    if [record.data for record in found] != [sent]:
        raise OSError(f"{name} returned {len(found)} messages, not the one that was put")
    return spent_ms, found[0].append_ms / 1_000

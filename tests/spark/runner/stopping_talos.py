"""The command ``talos``, whose archive stops its own process right before a commit.

Its Java process lives on. When the process continues, the commit is made, late; what came of it is
written to a file. The commit is made in a thread of its own, which the process waits for at its
end, so its outcome does not depend on which thread notices the lost lease first.
"""

import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from opentalos.cli.main import main
from opentalos.pipelines.lake.delta.table import DeltaLakeTable
from opentalos.pipelines.lake.layout import Batch, DataFile

FOLDER_VARIABLE: Final = "TALOS_TEST_FOLDER"
STOP: Final = "stop"  # there: the next commit stops the process
STOPPED: Final = "stopped"  # it has the process's pid
CONTINUE: Final = "continue"  # a pipe: a byte in it lets the commit be made
OUTCOME: Final = "outcome"  # of the late commit

_commit = DeltaLakeTable.commit


def commit(self: DeltaLakeTable, batch: Batch, files: Sequence[DataFile]) -> bool:
    """In place of DeltaLakeTable.commit."""
    folder = Path(os.environ[FOLDER_VARIABLE])
    if not (folder / STOP).exists() or not files:
        return _commit(self, batch, files)
    (folder / STOP).unlink()
    thread = threading.Thread(target=_late, args=(self, batch, files, folder), daemon=False)
    thread.start()
    thread.join()
    raise RuntimeError((folder / OUTCOME).read_text())


def _late(table: DeltaLakeTable, batch: Batch, files: Sequence[DataFile], folder: Path) -> None:
    (folder / STOPPED).write_text(str(os.getpid()))
    os.kill(os.getpid(), signal.SIGSTOP)
    with (folder / CONTINUE).open("rb") as pipe:  # this thread may run on for a moment
        pipe.read(1)
    try:
        outcome = f"committed: {_commit(table, batch, files)}"
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    fresh = folder / f"{OUTCOME}.fresh"
    fresh.write_text(outcome)
    fresh.rename(folder / OUTCOME)


if __name__ == "__main__":
    DeltaLakeTable.commit = commit  # type: ignore[method-assign]
    sys.argv[0] = "talos"
    main()

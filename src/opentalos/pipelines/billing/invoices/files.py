"""The invoices of a month on disk: complete versions, of which one is current.

    HOME/invoices/.epochs.json              the highest epoch of a lease that has billed
    HOME/invoices/2026-11/current           a link to the current version
    HOME/invoices/2026-11/ledger.json       open or closed, and the versions that were closed
    HOME/invoices/2026-11/.versions/DIGEST/lines.parquet, totals.parquet, pages/TENANT.html, ...

A version is named by a digest of its content and never changes. It is written and synced, then the
link is renamed over the old one: readers see the old invoices or the new ones, never a mixture.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from opentalos.adapters.local.invoice_folder import CURRENT, FOLDER, LEDGER, file_stem
from opentalos.model.errors import ConfigError
from opentalos.pipelines.billing.invoices.tables import same_bill
from opentalos.pipelines.lake.durable_files import sync_folder, write_json
from opentalos.pipelines.lake.folder_writers import fence, writing
from opentalos.pipelines.lake.periods.month import Month

_VERSIONS: Final = ".versions"
_NEW: Final = ".new"
_DIGEST_CHARACTERS: Final = 24
_QUERY: Final = "billing"  # whose runs replace each other

Files = Mapping[str, bytes]  # path in the version -> content


def page_name(tenant: str) -> str:
    """The path of a tenant's page within a version."""
    return f"pages/{file_stem(tenant)}.html"


@dataclass(frozen=True, slots=True)
class Ledger:
    """The state of a month; ``closings``: the versions that were closed, in order."""

    closed: bool = False
    closings: tuple[str, ...] = ()

    @property
    def revision(self) -> int:
        """The revision of the current invoices, or of those being made."""
        return len(self.closings) + (0 if self.closed else 1)


def invoices_folder(home: Path) -> Path:
    """The folder of all months."""
    return home / FOLDER


class InvoiceFolder:
    """The invoices of one month; one writer at a time."""

    def __init__(self, home: Path, month: Month) -> None:
        self.month = month
        self.folder = invoices_folder(home) / str(month)
        self._versions = self.folder / _VERSIONS

    @property
    def current(self) -> Path | None:
        """The current version: a folder that never changes."""
        try:
            return self.folder / os.readlink(self.folder / CURRENT)
        except FileNotFoundError:
            return None

    def ledger(self) -> Ledger:
        """The stored state. Raises: ConfigError: the file is damaged."""
        path = self.folder / LEDGER
        try:
            found = json.loads(path.read_text())
            return Ledger(bool(found["closed"]), tuple(map(str, found["closings"])))
        except FileNotFoundError:
            return Ledger()
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is damaged: {error}") from error

    def publish(
        self, files_of: Callable[[int], Files], *, reopen: bool = False, epoch: int = 0
    ) -> Path:
        """Make these invoices current; those of a closed month must bill the same, and stay.

        Args:   files_of: returns the invoices with a given revision number; epoch: of the run's
                lease; 0: it has none.
        Raises: ConfigError: the month is closed and they differ; LeaseNotHeld: a run with a higher
                epoch has written invoices; nothing was changed. As ``writing``.
        """
        with self._writing(epoch):
            return self._publish(files_of, reopen=reopen)

    def _publish(self, files_of: Callable[[int], Files], *, reopen: bool) -> Path:
        ledger = self.ledger()
        files = files_of(ledger.revision)
        name = _digest(files)
        if ledger.closed and name != ledger.closings[-1]:
            closed = self._versions / ledger.closings[-1]
            if same_bill(closed, files):
                return closed
            if not reopen:
                raise ConfigError(
                    f"{self.month} is closed and its invoices would change: check the usage with "
                    "talos bill reconcile, or make the next revision with -o billing.reopen=yes"
                )
            ledger = Ledger(False, ledger.closings)
            files = files_of(ledger.revision)
            name = _digest(files)
            self._write_ledger(ledger)
        before = self.current  # a reader may be using it
        self._write_version(name, files)
        self._point_at(name)
        self._sweep({name, *ledger.closings, *([before.name] if before else [])})
        return self._versions / name

    def close(self, *, epoch: int = 0) -> None:
        """Make the current version final. Idempotent. Raises: as ``publish``."""
        with self._writing(epoch):
            ledger, current = self.ledger(), self.current
            if not ledger.closed and current is not None:
                self._write_ledger(Ledger(True, (*ledger.closings, current.name)))

    @contextmanager
    def _writing(self, epoch: int) -> Iterator[None]:
        """All months have one writer and one epoch, since a credit is shared by several."""
        all_months = self.folder.parent
        what = f"the invoices of {self.month}"
        with writing(all_months, what, "bill the month again"):
            fence(all_months, what, _QUERY, epoch)
            yield

    def _write_version(self, name: str, files: Files) -> None:
        if (self._versions / name).exists():
            return
        new = self._versions / _NEW
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(parents=True)
        for path, content in files.items():
            target = new / path
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content)
        os.sync()  # one call instead of one fsync for each of thousands of small files
        os.rename(new, self._versions / name)
        sync_folder(self._versions)

    def _point_at(self, name: str) -> None:
        link = self.folder / CURRENT
        if self.current == self._versions / name:
            return
        fresh = self.folder / f"{_NEW}-link"
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(Path(_VERSIONS) / name)
        os.replace(fresh, link)
        sync_folder(self.folder)

    def _write_ledger(self, ledger: Ledger) -> None:
        write_json(self.folder / LEDGER, asdict(ledger))

    def _sweep(self, wanted: set[str]) -> None:
        for version in self._versions.iterdir():
            if version.name not in wanted:
                shutil.rmtree(version, ignore_errors=True)


def _digest(files: Files) -> str:
    found = hashlib.sha256()
    for path, content in sorted(files.items()):
        found.update(f"{path}\0{len(content)}\0".encode())
        found.update(content)
    return found.hexdigest()[:_DIGEST_CHARACTERS]

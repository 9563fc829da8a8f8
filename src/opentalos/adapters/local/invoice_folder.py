"""PublishedInvoices in a folder: the documents that the billing pipeline writes beside its tables.

    HOME/invoices/2026-11/current                 a link to the current version, never a mixture
    HOME/invoices/2026-11/current/summary.json    what each tenant has to pay
    HOME/invoices/2026-11/current/documents/TENANT.json
    HOME/invoices/2026-11/ledger.json             whether the month is closed

The pipeline uses the names of this module. Amounts are decimal numbers in strings.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import quote

from opentalos.model.errors import Unavailable
from opentalos.ports.invoices import InvoiceMonth

FOLDER: Final = "invoices"
CURRENT: Final = "current"
LEDGER: Final = "ledger.json"
SUMMARY: Final = "summary.json"
MONTHS_MAX: Final = 120
_MONTH: Final = re.compile(r"\d{4}-\d{2}")
_SUMMARY_BYTES_MAX: Final = 32 << 20  # some hundred bytes for each tenant
_DOCUMENT_BYTES_MAX: Final = 16 << 20  # some hundred bytes for each line and topic
_LEDGER_BYTES_MAX: Final = 1 << 20
_NAME_MAX: Final = 200  # characters of a file's name before its suffix
_DIGEST_CHARACTERS: Final = 24
_T = TypeVar("_T")


def file_stem(tenant: str) -> str:
    """The name of a tenant's files within a version, without suffix."""
    name = quote(tenant, safe="")
    if len(name) > _NAME_MAX:
        name = name[:_NAME_MAX] + hashlib.sha256(tenant.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return name


def document_name(tenant: str) -> str:
    """The path of a tenant's document within a version."""
    return f"documents/{file_stem(tenant)}.json"


class InvoiceDocuments:
    """Reads on threads, one file after the other. Args: home: of the pipelines."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER
        self._turn = asyncio.Semaphore(2)  # files of some MB that are read at the same time

    async def months(self) -> Sequence[str]:
        """The newest first."""
        return await self._read(self._months)

    async def month(self, month: str) -> InvoiceMonth | None:
        """All tenants of a month."""
        return await self._read(self._month, month)

    async def invoice(self, month: str, tenant: str) -> Mapping[str, Any] | None:
        """One invoice."""
        return await self._read(self._invoice, month, tenant)

    async def _read(self, read: Callable[..., _T], *arguments: str) -> _T:
        async with self._turn:
            try:
                return await asyncio.to_thread(read, *arguments)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise Unavailable(f"the published invoices cannot be read: {error}") from error

    def _months(self) -> Sequence[str]:
        try:
            names = [entry.name for entry in self._folder.iterdir()]
        except FileNotFoundError:
            return ()
        return sorted(filter(_MONTH.fullmatch, names), reverse=True)[:MONTHS_MAX]

    def _month(self, month: str) -> InvoiceMonth | None:
        version = self._version(month)
        found = version and _document(version / SUMMARY, _SUMMARY_BYTES_MAX)
        if not found:
            return None
        return InvoiceMonth(month, self._closed(month), int(found["revision"]), found["tenants"])

    def _invoice(self, month: str, tenant: str) -> Mapping[str, Any] | None:
        version = self._version(month)
        found = version and _document(version / document_name(tenant), _DOCUMENT_BYTES_MAX)
        if not found or found["tenant"] != tenant:
            return None
        return {**found, "closed": self._closed(month)}

    def _version(self, month: str) -> Path | None:
        """The folder that the link names, which never changes."""
        if not _MONTH.fullmatch(month):
            return None
        link = self._folder / month / CURRENT
        try:
            return link.parent / link.readlink()
        except FileNotFoundError:
            return None

    def _closed(self, month: str) -> bool:
        ledger = _document(self._folder / month / LEDGER, _LEDGER_BYTES_MAX)
        return bool(ledger and ledger["closed"])


def _document(path: Path, bytes_max: int) -> dict[str, Any] | None:
    """None: there is no such file. Raises: OSError, ValueError."""
    try:
        with path.open("rb") as file:
            text = file.read(bytes_max + 1)
    except FileNotFoundError:
        return None
    if len(text) > bytes_max:
        raise ValueError(f"{path.name} is larger than {bytes_max:,} bytes")
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is no JSON object")
    return found

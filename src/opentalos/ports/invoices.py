"""PublishedInvoices: the invoices that billing has made, for whoever may see them."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class InvoiceMonth(NamedTuple):
    """The current invoices of a month. ``tenants``: one entry for each, as billing wrote it."""

    month: str  # YYYY-MM, in UTC
    closed: bool
    revision: int
    tenants: Sequence[Mapping[str, Any]]


class PublishedInvoices(Protocol):
    """Reads what is current now. Raises: Unavailable: it cannot be read, or is damaged.

    ``months``: YYYY-MM, the newest first, a bounded number of them; ``month``, ``invoice``: None:
    there is none, or an older version made it, which wrote no documents.
    """

    async def months(self) -> Sequence[str]: ...
    async def month(self, month: str) -> InvoiceMonth | None: ...
    async def invoice(self, month: str, tenant: str) -> Mapping[str, Any] | None: ...

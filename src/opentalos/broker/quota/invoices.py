"""InvoiceService: the invoices that billing published, each tenant its own."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from opentalos.catalog.access.roles import may_administer, may_look
from opentalos.model.errors import InvoiceNotExist
from opentalos.model.identity import Principal
from opentalos.ports.invoices import InvoiceMonth, PublishedInvoices

LISTED_MAX: Final = 10_000  # invoices of one call


class InvoiceEntry(NamedTuple):
    """What a tenant has to pay for a month. ``fields``: as billing wrote them."""

    month: str
    closed: bool
    revision: int
    fields: Mapping[str, Any]


class InvoiceService:
    """For administrators, roles with "see invoices", and each tenant.

    Args: source: None: this server does not know where invoices are.
    """

    def __init__(self, source: PublishedInvoices | None) -> None:
        self._source = source

    @property
    def configured(self) -> bool:
        """Whether this server shows invoices."""
        return self._source is not None

    async def listed(self, caller: Principal, *, tenant: str, month: str) -> Sequence[InvoiceEntry]:
        """Totals that the caller may see, the newest month first, at most ``LISTED_MAX``.

        Args:   tenant: only of this one; month: only of this one; each "": all.
        Raises: Unavailable.
        """
        if self._source is None or (tenant and not _may_see(caller, tenant)):
            return ()
        found: list[InvoiceEntry] = []
        for listed in [month] if month else await self._source.months():
            entries = await self._source.month(listed)
            if entries is not None:
                found += _entries(entries, caller, tenant, LISTED_MAX - len(found))
            if len(found) >= LISTED_MAX:
                break
        return found

    async def invoice(self, caller: Principal, tenant: str, month: str) -> Mapping[str, Any]:
        """One invoice with its lines. Raises: InvoiceNotExist; Unavailable."""
        if self._source is not None and _may_see(caller, tenant):
            found = await self._source.invoice(month, tenant)
            if found is not None:
                return found
        raise InvoiceNotExist(f"tenant {tenant[:80]} has no invoice of {month} that you may see")


def _entries(
    found: InvoiceMonth, caller: Principal, tenant: str, most: int
) -> Sequence[InvoiceEntry]:
    shown = [
        InvoiceEntry(found.month, found.closed, found.revision, fields)
        for fields in found.tenants
        if tenant in ("", fields["tenant"]) and _may_see(caller, fields["tenant"])
    ]
    return shown[:most]


def _may_see(caller: Principal, tenant: str) -> bool:
    own = may_look(caller) and tenant == caller.owner_id
    return own or may_administer(caller, "see invoices")

"""What the stored invoices of other months took of credits and refunds."""

from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path

from opentalos.pipelines.billing.credits.credit import Credit
from opentalos.pipelines.billing.invoices.files import InvoiceFolder, invoices_folder
from opentalos.pipelines.billing.invoices.tables import LINES, read_rows
from opentalos.pipelines.lake.periods.month import Month


def used_elsewhere(home: Path, month: Month, credits: Iterable[Credit]) -> dict[str, Decimal]:
    """By id: taken by the invoices of earlier months and by the closed ones of later months.

    A later month that is open is billed again after this one. Raises: ConfigError: a file of a
    newer version.
    """
    before = [credit for credit in credits if credit.day < month.end.date()]
    if not before:
        return {}
    ids = {credit.id for credit in before}
    first = min(credit.day for credit in before)
    used: dict[str, Decimal] = {}
    for other in _months(home):
        folder = InvoiceFolder(home, other)
        version = folder.current
        if version is None or other == month or other.end.date() <= first:
            continue
        if other > month and not folder.ledger().closed:
            continue
        for row in read_rows(version / LINES, ("id", "amount"), with_value="id"):
            if row["id"] in ids:
                used[row["id"]] = used.get(row["id"], Decimal(0)) - row["amount"]
    return used


def open_months(home: Path, begin: Month, end: Month) -> list[Month]:
    """The months from ``begin`` to before ``end`` that have invoices which are not final."""
    return [
        month
        for month in _months(home)
        if begin <= month < end
        and InvoiceFolder(home, month).current is not None
        and not InvoiceFolder(home, month).ledger().closed
    ]


def _months(home: Path) -> Iterator[Month]:
    folder = invoices_folder(home)
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        try:
            yield Month.parse(path.name)
        except ValueError:
            continue  # another file

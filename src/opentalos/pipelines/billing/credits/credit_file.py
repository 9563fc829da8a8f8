"""Reads the file of credits and refunds; every error names its file and line."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final

from opentalos.pipelines.billing.credits.credit import Credit
from opentalos.pipelines.billing.plans.price_plan import AMOUNT_DECIMALS_MAX, PRICE_MAX, Resource
from opentalos.pipelines.billing.plans.price_plan_files import CURRENCY, refuse
from opentalos.pipelines.billing.plans.toml_reader import Faults, TomlTable, read_toml

_TEXTS: Final = ("id", "tenant", "currency", "reason")


def load_credits(path: Path) -> tuple[Credit, ...]:
    """Read the file. Raises: ConfigError: with every error, each with its line."""
    found, faults = check_credits(path)
    refuse(faults)
    return found


def check_credits(path: Path) -> tuple[tuple[Credit, ...], list[str]]:
    """The entries of the file, each id once, and its errors as FILE:LINE: TEXT."""
    faults = Faults()
    table = read_toml(path, faults)
    found: dict[str, tuple[Credit, int]] = {}
    if table is not None:
        for kind in (Resource.CREDIT, Resource.REFUND):
            for entry in table.tables(kind):
                credit = _credit(entry, kind)
                if credit is not None:
                    _add(found, credit, entry)
        table.end()
    return tuple(credit for credit, _ in found.values()), faults.texts


def _add(found: dict[str, tuple[Credit, int]], credit: Credit, entry: TomlTable) -> None:
    """An entry that is repeated as it is counts once."""
    known, line = found.setdefault(credit.id, (credit, entry.line()))
    if known != credit:
        entry.fault(f"id {credit.id!r} was given to another entry in line {line}", "id")


def _credit(entry: TomlTable, kind: Resource) -> Credit | None:
    texts = dict(_texts(entry))
    day = entry.day("date")
    amount = entry.amount("amount", PRICE_MAX, AMOUNT_DECIMALS_MAX)
    entry.end()
    currency = texts.get("currency")
    if currency is not None and not CURRENCY.fullmatch(currency):
        entry.fault(f"currency is {currency!r}; write three capitals, such as EUR", "currency")
    if amount == Decimal(0):
        entry.fault("amount must be above 0", "amount")
    if day is None or amount is None or len(texts) < len(_TEXTS):
        return None
    return Credit(kind=kind, day=day, amount=amount, **texts)


def _texts(entry: TomlTable) -> Iterator[tuple[str, str]]:
    for name in _TEXTS:
        text = entry.text(name)
        if text is not None:
            yield name, text

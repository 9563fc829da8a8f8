"""[billing]: where a server finds the invoices that it shows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingSettings:
    """[billing] Invoices of the billing pipeline, which REST and the console show."""

    invoices: str = ""  # the pipelines' home, which has the folder invoices; empty: none are shown

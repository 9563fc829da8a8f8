"""``talos bill``: metered usage, invoices and price plans."""

import click

from opentalos.cli.lazy_group import LazyGroup

_COMMANDS = {
    "reconcile": (
        "opentalos.cli.commands.bill.usage",
        "reconcile",
        "Compare metered usage with the logs.",
    ),
    "export": ("opentalos.cli.commands.bill.usage", "export", "Export raw usage."),
    "invoice": ("opentalos.cli.commands.bill.invoices", "invoice", "Show invoices."),
    "plan": ("opentalos.cli.commands.bill.invoices", "plan", "Check price plans."),
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def bill() -> None:
    """Show the results of the pipelines metering and billing: usage and invoices.

    Needs pip install 'opentalos[query]'; neither Spark nor Java.
    """

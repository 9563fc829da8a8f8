"""``talos bill``: what was metered, what it costs, and whether it is what the logs have."""

import click

from opentalos.cli.lazy_group import LazyGroup

_COMMANDS = {
    "reconcile": (
        "opentalos.cli.commands.bill.usage",
        "reconcile",
        "Compare what was metered with the logs.",
    ),
    "export": ("opentalos.cli.commands.bill.usage", "export", "Write raw usage to stdout."),
    "invoice": ("opentalos.cli.commands.bill.invoices", "invoice", "Show invoices."),
    "plan": ("opentalos.cli.commands.bill.invoices", "plan", "Price plans."),
}


@click.group(cls=LazyGroup, entries=_COMMANDS)
def bill() -> None:
    """Metered usage and invoices, as the pipelines metering and billing made them.

    Needs pip install 'opentalos[spark]', but no Java.
    """

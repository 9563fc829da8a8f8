"""The ``talos`` command: groups, errors, exit codes."""

import sys

import click

from opentalos import __version__
from opentalos.cli.lazy_group import LazyGroup

# Each command is imported only when it is asked for, so that starting a server loads no other.
_COMMANDS = {
    "serve": ("opentalos.cli.serve", "serve", "Run a server."),
    "config": ("opentalos.cli.config", "config", "Check or show the configuration."),
    "user": ("opentalos.cli.principals", "user", "Users of a running server."),
    "key": ("opentalos.cli.principals", "key", "Access keys of users."),
    "backend": ("opentalos.cli.backend.command", "backend", "Real backends on this machine."),
    "cluster": ("opentalos.cli.cluster", "cluster", "Servers that share their storage."),
    "log": ("opentalos.cli.log_verify", "log", "Inspect stored logs."),
    "demo": ("opentalos.cli.demo", "demo", "A tour with real traffic."),
}
EXIT_FAILURE = 1  # the command was understood and did not succeed; 2 is wrong usage


@click.group(
    cls=LazyGroup, entries=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="talos")
def talos() -> None:
    """A multi-tenant message queue that speaks the Talos protocol."""


def main() -> None:
    """Entry point: errors become one line on stderr, never a stack trace."""
    from opentalos.model.errors import TalosError

    try:
        talos.main(prog_name="talos", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except click.Abort:
        sys.exit(130)  # as a shell reports an interrupt
    except TalosError as error:
        _fail(str(error))
    except BrokenPipeError:
        sys.exit(EXIT_FAILURE)
    except Exception as error:  # the last resort: a defect, but still no stack trace
        _fail(f"unexpected {type(error).__name__}: {error}")


def _fail(text: str) -> None:
    for line in text.splitlines() or [""]:
        click.echo(f"talos: {line}", err=True)
    sys.exit(EXIT_FAILURE)


if __name__ == "__main__":
    main()

"""The ``talos`` command: groups, errors, exit codes."""

import importlib
import importlib.util
import sys

import click

from opentalos import __version__

# Each command is imported only when it is asked for, so that starting a server loads no other.
_COMMANDS = {
    "serve": ("opentalos.cli.serve", "serve", "Run a server."),
    "config": ("opentalos.cli.config", "config", "Check or show the configuration."),
    "user": ("opentalos.cli.principals", "user", "Users of a running server."),
    "key": ("opentalos.cli.principals", "key", "Access keys of users."),
    "backend": ("opentalos.cli.backend.command", "backend", "Real backends on this machine."),
    "log": ("opentalos.cli.log_verify", "log", "Inspect stored logs."),
    "demo": ("opentalos.cli.demo", "demo", "A tour with real traffic."),
}
EXIT_FAILURE = 1  # the command was understood and did not succeed; 2 is wrong usage


class _LazyGroup(click.Group):
    """Finds commands by module name; one whose module is absent does not exist."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in _COMMANDS if _exists(_COMMANDS[name][0])]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS or not _exists(_COMMANDS[cmd_name][0]):
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, _COMMANDS[name][2]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _exists(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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

"""The ``talos`` command: groups, errors, exit codes."""

import errno
import os
import sys
from typing import NoReturn

import click

from opentalos import __version__
from opentalos.cli.lazy_group import LazyGroup
from opentalos.model.errors import TalosError

# Each command is imported only when it is asked for, so that starting a server loads no other.
_COMMANDS = {
    "serve": ("opentalos.cli.commands.server.serve", "serve", "Run a server."),
    "demo": ("opentalos.cli.demo.single_server", "demo", "A tour with real traffic."),
    "topic": ("opentalos.cli.commands.topic.admin", "topic", "Topics and their partitions."),
    "produce": (
        "opentalos.cli.commands.message.produce",
        "produce",
        "Put lines of a file or pipe to a topic.",
    ),
    "consume": (
        "opentalos.cli.commands.message.consume",
        "consume",
        "Write messages of a topic to stdout.",
    ),
    "group": (
        "opentalos.cli.commands.group.admin",
        "group",
        "Consumer groups: progress, lag, resets.",
    ),
    "table": (
        "opentalos.cli.commands.table.admin",
        "table",
        "Structured tables, their rows and streams.",
    ),
    "acl": ("opentalos.cli.commands.topic.acl", "acl", "Who may do what with a topic."),
    "user": ("opentalos.cli.commands.tenant.principals", "user", "Users of a running server."),
    "key": ("opentalos.cli.commands.tenant.principals", "key", "Access keys of users."),
    "quota": ("opentalos.cli.commands.tenant.quota", "quota", "Limits of topics and users."),
    "bill": ("opentalos.cli.commands.bill.bill", "bill", "Metered usage, invoices, price plans."),
    "profile": ("opentalos.cli.commands.profiles", "profile", "Servers and keys by name."),
    "cluster": (
        "opentalos.cli.commands.cluster.servers",
        "cluster",
        "Servers that share their storage.",
    ),
    "pipeline": (
        "opentalos.cli.commands.pipeline.run",
        "pipeline",
        "Data pipelines on Spark.",
    ),
    "query": ("opentalos.cli.commands.pipeline.query", "query", "Figures that the pipelines made."),
    "agent": (
        "opentalos.cli.commands.agent",
        "agent",
        "Measure this machine; take Falcon pushes.",
    ),
    "backend": ("opentalos.cli.commands.backend", "backend", "Real backends on this machine."),
    "config": (
        "opentalos.cli.commands.server.config",
        "config",
        "Check or show the configuration.",
    ),
    "log": ("opentalos.cli.commands.server.log_verify", "log", "Inspect stored logs."),
    "backup": ("opentalos.cli.commands.server.backup", "backup", "Copy a server's data."),
    "restore": (
        "opentalos.cli.commands.server.backup",
        "restore",
        "Make a data directory from a copy.",
    ),
    "bench": ("opentalos.cli.commands.message.bench", "bench", "Put and read load, with figures."),
    "completion": ("opentalos.cli.commands.completion", "completion", "Completion for a shell."),
}
EXIT_FAILURE = 1  # the command was understood and did not succeed; 2 is wrong usage
EXIT_INTERRUPTED = 130  # as a shell reports an interrupt


@click.group(
    cls=LazyGroup, entries=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="talos")
def talos() -> None:
    """A multi-tenant message queue that speaks the Talos protocol.

    Exit status: 0 done, 1 failed, 2 wrong usage, 130 ended by Ctrl-C. Commands that talk to a
    server find it by --url and --as, by --profile, by TALOS_URL and TALOS_KEY, by the default
    profile, or in a data directory of this machine.
    """


def main() -> NoReturn:
    """Entry point: errors become one line on stderr, never a stack trace."""
    try:
        status = talos.main(prog_name="talos", standalone_mode=False)
        sys.stdout.flush()
    except click.UsageError as error:
        error.show()
        _end(error.exit_code)
    except click.ClickException as error:
        _fail(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted", EXIT_INTERRUPTED)
    except TalosError as error:
        _fail("; ".join([str(error), *getattr(error, "__notes__", ())]))
    except BrokenPipeError:
        _end(EXIT_FAILURE)  # whoever read the output has seen enough
    except OSError as error:
        _fail(_os_text(error))
    except Exception as error:  # the last resort: a defect, but still no stack trace
        _fail(f"unexpected {type(error).__name__}: {error}")
    _end(status if isinstance(status, int) else 0)


def _os_text(error: OSError) -> str:
    if error.errno == errno.ENOSPC and error.filename is None:
        return f"cannot write the output: {error.strerror}"
    what = f"{error.filename}: " if error.filename is not None else ""
    return f"{what}{error.strerror or error}"


def _fail(text: str, status: int = EXIT_FAILURE) -> NoReturn:
    click.echo(f"talos: {' '.join(text.split())}", err=True)
    _end(status)


def _end(status: int) -> NoReturn:
    """Exit; output that cannot be written any more is given up, without a second complaint."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    jpype = sys.modules.get("jpype")
    if jpype is not None and jpype.isJVMStarted():
        # With a thread inside Java, say of an opening that was given up, the end of the JVM
        # crashes the process, and its exit status is lost.
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()

"""The ``talos`` command: its sub-commands, error lines and exit codes."""

import errno
import os
import sys
from typing import NoReturn

import click

from opentalos import __version__
from opentalos.cli.exit_status import EXIT_FAILURE, EXIT_INTERRUPTED
from opentalos.cli.lazy_group import LazyGroup
from opentalos.model.errors import TalosError

# A command is imported only when it is invoked: `talos serve` loads none of the others.
_COMMANDS = {
    "serve": ("opentalos.cli.commands.server.serve", "serve", "Run a server."),
    "demo": (
        "opentalos.cli.demo.single_server",
        "demo",
        "Start a server and run a tour with real traffic.",
    ),
    "topic": ("opentalos.cli.commands.topic.admin", "topic", "Manage topics and partitions."),
    "produce": (
        "opentalos.cli.commands.message.produce",
        "produce",
        "Send the lines of a file or pipe to a topic.",
    ),
    "consume": (
        "opentalos.cli.commands.message.consume",
        "consume",
        "Print the messages of a topic.",
    ),
    "group": ("opentalos.cli.commands.group.admin", "group", "Show and reset consumer groups."),
    "series": (
        "opentalos.cli.commands.cluster.series",
        "series",
        "Show metrics over time.",
    ),
    "lease": (
        "opentalos.cli.commands.group.leases",
        "lease",
        "Show leases and take them away.",
    ),
    "migrate": (
        "opentalos.cli.commands.topic.migrate",
        "migrate",
        "Copy topics from one server to another.",
    ),
    "table": (
        "opentalos.cli.commands.table.admin",
        "table",
        "Manage structured tables, rows and streams.",
    ),
    "acl": ("opentalos.cli.commands.topic.acl", "acl", "Manage permissions on topics."),
    "user": ("opentalos.cli.commands.tenant.principals", "user", "Manage users."),
    "key": ("opentalos.cli.commands.tenant.principals", "key", "Manage the access keys of users."),
    "quota": (
        "opentalos.cli.commands.tenant.quota",
        "quota",
        "Manage quotas and partition requests.",
    ),
    "audit": ("opentalos.cli.commands.tenant.audit", "audit", "List who changed what."),
    "encryption": (
        "opentalos.cli.commands.tenant.encryption",
        "encryption",
        "Show encryption at rest and rotate its keys.",
    ),
    "bill": ("opentalos.cli.commands.bill.bill", "bill", "Show metered usage and invoices."),
    "lake": (
        "opentalos.cli.commands.pipeline.lake",
        "lake",
        "Show and maintain tables of the lake.",
    ),
    "profile": ("opentalos.cli.commands.profiles", "profile", "Manage connection profiles."),
    "cluster": (
        "opentalos.cli.commands.cluster.servers",
        "cluster",
        "Show and manage the servers of a cluster.",
    ),
    "pipeline": ("opentalos.cli.commands.pipeline.run", "pipeline", "Run data pipelines on Spark."),
    "query": ("opentalos.cli.commands.pipeline.query", "query", "Query the results of pipelines."),
    "agent": ("opentalos.cli.commands.agent", "agent", "Collect metrics on this machine."),
    "backend": (
        "opentalos.cli.commands.backend",
        "backend",
        "Run storage backends on this machine.",
    ),
    "config": (
        "opentalos.cli.commands.server.config",
        "config",
        "Check or print the server configuration.",
    ),
    "log": ("opentalos.cli.commands.server.log_verify", "log", "Inspect stored logs."),
    "backup": ("opentalos.cli.commands.server.backup", "backup", "Back up the data of a server."),
    "restore": (
        "opentalos.cli.commands.server.backup",
        "restore",
        "Restore a backup into a new data directory.",
    ),
    "bench": (
        "opentalos.cli.commands.message.bench",
        "bench",
        "Measure put and get throughput and latency.",
    ),
    "doctor": (
        "opentalos.cli.commands.server.doctor",
        "doctor",
        "Check this machine and a server; write a debug bundle.",
    ),
    "completion": (
        "opentalos.cli.commands.completion",
        "completion",
        "Print a shell completion script.",
    ),
}
# As in an environment with the SDK alone.
_MISSING = (
    "this command needs {}, which is not installed: pip install opentalos, without --no-deps, "
    "installs all that a server needs; optional parts have an extra, as opentalos[spark]"
)


@click.group(
    cls=LazyGroup, entries=_COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="talos")
def talos() -> None:
    """OpenTalos: a durable, partitioned message queue that speaks the Talos protocol.

    Commands that talk to a server take its address and key from options (--url and --as, --profile
    or --data), else from TALOS_URL and TALOS_KEY, else from TALOS_PROFILE or the default profile,
    else from the data directory ./talos-data. A server with TLS may need --ca, or TALOS_CA.

    \b
    To begin: talos serve
    and in another terminal, in the same directory:
              talos topic create first
              echo hello | talos produce first
              talos consume first

    DURATION is a number of seconds, or has a unit: 90s, 10m, 12h, 7d.

    Exit status: 0 success, 1 failure, 2 usage error, 130 interrupted by Ctrl-C.
    """


def main() -> NoReturn:
    """Run the command; an error becomes a line on stderr, never a stack trace."""
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
        _end(EXIT_FAILURE)  # the reader closed the pipe: `talos consume t | head`
    except OSError as error:
        _fail(_os_text(error))
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        _fail(str(error) if package in ("", "opentalos") else _MISSING.format(package))
    except Exception as error:  # a defect; still no stack trace
        _fail(" ".join(f"unexpected {type(error).__name__}: {error}".split()))
    _end(status if isinstance(status, int) else 0)


def _os_text(error: OSError) -> str:
    if error.errno == errno.ENOSPC and error.filename is None:
        return f"cannot write the output: {error.strerror}"
    file = f"{error.filename}: " if error.filename is not None else ""
    return f"{file}{error.strerror or error}"


def _fail(text: str, status: int = EXIT_FAILURE) -> NoReturn:
    """Print an error and exit; a list of problems is one line per problem."""
    for line in text.splitlines() or [""]:
        if shown := " ".join(line.split()):
            click.echo(f"talos: {shown}", err=True)
    _end(status)


def _end(status: int) -> NoReturn:
    """Exit; discard output that cannot be written, without a second error."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    jpype = sys.modules.get("jpype")
    if jpype is not None and jpype.isJVMStarted():
        # While a thread is inside Java (an abandoned open, for example), shutting down the JVM
        # crashes the process and loses the exit status.
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()

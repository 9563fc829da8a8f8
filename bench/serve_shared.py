"""``talos serve`` as one of several processes over one local directory; for the spike of ADR 34.

usage: python -m bench.serve_shared OPTIONS OF talos serve

The product refuses a cluster whose control records and rows are in SQLite. This launcher does
not, so [storage] may name ``file://``, ``sqlite://`` and ``sqlite://`` of one directory for all.
"""

import sys

from opentalos.cli.main import main as talos
from opentalos.server.config import StorageSettings


def main() -> int:
    """Serve as a member of a cluster, whatever the stores are."""
    StorageSettings.__post_init__ = lambda self: None  # type: ignore[method-assign]
    setattr(StorageSettings, "clustered", property(lambda self: True))  # noqa: B010
    sys.argv[1:1] = ["serve"]
    return talos()


if __name__ == "__main__":
    sys.exit(main())

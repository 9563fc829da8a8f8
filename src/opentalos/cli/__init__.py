"""The ``talos`` command."""

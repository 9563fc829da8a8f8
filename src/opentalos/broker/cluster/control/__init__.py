"""The controller: failure detection, planning, publication, weights."""

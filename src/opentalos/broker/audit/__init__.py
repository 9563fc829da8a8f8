"""Who changed what, from where, and with which outcome: recording and reading."""

"""Use cases of structured tables and of the streams that tell their changes."""

"""Values and stream state of structured tables; no I/O."""

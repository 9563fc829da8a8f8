"""Benchmarks: `make bench` prints a table and writes JSON; nothing here is a timed test."""

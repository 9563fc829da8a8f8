"""Runs pipelines: session, locks, progress, supervision, alarms."""

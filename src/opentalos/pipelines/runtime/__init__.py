"""Runs pipelines: one session per run, locks, progress, supervision, alarms.

``runner`` runs several pipelines in one Spark session; ``supervisor`` restarts such a run. Both are
started by ``talos pipeline``.
"""

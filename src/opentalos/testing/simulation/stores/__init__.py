"""Simulated storage: a disk that outlives servers, faulty stores on it, and kill points."""

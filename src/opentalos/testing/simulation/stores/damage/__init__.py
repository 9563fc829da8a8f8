"""Damages of what is stored: flipped bits, files that end early, records of an earlier time."""

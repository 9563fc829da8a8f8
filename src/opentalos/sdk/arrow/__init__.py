"""Blocks as Arrow tables and back; needs the extra ``arrow``."""

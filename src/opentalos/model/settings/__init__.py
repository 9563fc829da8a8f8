"""Sections of the configuration that have a module of their own; see ``limits``."""

"""Structs and services generated from idl/."""

"""Calls on structured tables: access, admin, reads, writes, scans."""

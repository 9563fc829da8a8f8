"""Metered messages and bytes per minute, counted at commit or recounted from the log."""

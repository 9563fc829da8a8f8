"""Producers that repeat what they sent: tasks of Spark, and the SDK's own."""

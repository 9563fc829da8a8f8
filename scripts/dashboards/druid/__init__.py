"""Dashboards over the datasource ``metrics`` of Druid."""

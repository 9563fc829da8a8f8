"""The one HTTP port: protocol class, routes, bounds; it knows no service."""

"""One REST call: route, schema, credentials, errors, OpenAPI."""

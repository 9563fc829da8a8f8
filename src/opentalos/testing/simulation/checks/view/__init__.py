"""Views: a history indexed for the checks."""

"""A history indexed for the checks."""

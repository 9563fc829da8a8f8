"""Sessions of browsers: cookies, logins, and who sent a request."""

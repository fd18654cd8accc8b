"""Third-party code copied in when a wheel is built; empty in a source checkout."""

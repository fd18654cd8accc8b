"""Gets payload wheels from where the user's installer takes packages, and trusts none of it."""

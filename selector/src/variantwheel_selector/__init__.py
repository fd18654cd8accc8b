"""Finds out what a machine can run and picks the wheel variant that fits it."""

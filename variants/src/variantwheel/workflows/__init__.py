"""Configurations for CI systems, generated from a project's definitions; they hold no logic."""

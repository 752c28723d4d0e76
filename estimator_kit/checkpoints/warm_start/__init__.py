"""Warm start: a new training takes its first variables from an older model."""

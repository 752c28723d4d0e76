"""Turns serialized records into the ids and numbers that a model reads."""

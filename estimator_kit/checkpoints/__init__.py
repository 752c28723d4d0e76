"""Checkpoints: which one is the latest, whether it can be read, and whether it fits a model."""

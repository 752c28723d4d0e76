"""Prepares data before training: reads tables, converts them, analyzes them."""

"""Writes SavedModels, checks them, and decides which versions to keep."""

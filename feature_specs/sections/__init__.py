"""Sections of a spec that describe neither features nor heads."""

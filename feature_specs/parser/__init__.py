"""Reads the YAML of a spec into a `FeatureSpec`."""

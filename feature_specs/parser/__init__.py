"""From the YAML of a spec to a `FeatureSpec`."""

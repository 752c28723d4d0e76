"""The default data: an impression log with known true probabilities."""

"""Optimizers, learning-rate schedules, and what is done with gradients before a step."""

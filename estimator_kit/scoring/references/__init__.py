"""Simple models, trained on the same rows, that show how good a model is: --reference_models."""

"""Keras layers and Keras models as models of the kit."""

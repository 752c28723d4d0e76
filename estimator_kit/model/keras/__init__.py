"""Keras layers in a ModelFn, and Keras models as models of the kit."""

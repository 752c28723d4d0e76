"""The model_fn and its parts: input layer, objectives, Keras layers."""

"""The model_fn and its parts: the input layer, the objectives, and Keras layers."""

"""Which settings do not go together: each problem a line with its remedy. No TensorFlow."""

"""What a trace of TensorFlow's profiler says about the steps of a training."""

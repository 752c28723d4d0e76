"""Exports for runtimes other than TensorFlow: TensorFlow Lite and ONNX Runtime."""

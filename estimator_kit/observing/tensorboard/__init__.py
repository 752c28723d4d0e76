"""What a run writes for TensorBoard, without the package tensorboard."""

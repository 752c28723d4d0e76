"""What `ModelFn` makes only in one mode: training, evaluation or prediction."""

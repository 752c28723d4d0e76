"""Names of moving averages of weights."""


def average_name(variable: str) -> str:
    """The name that the moving average of a variable has in a checkpoint."""
    return f"{variable}/ExponentialMovingAverage"

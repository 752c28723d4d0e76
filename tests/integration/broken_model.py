"""A model with a bug, for the exit status of bugs."""

import estimator_kit as ek


class Broken(ek.ModelFn):
    """Divides by zero when its graph is built."""

    def logits(self, features, mode):
        return 1 / 0

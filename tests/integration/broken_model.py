"""Models with a bug, for the exit statuses of bugs."""

import estimator_kit as ek


class Wrong(ek.ModelFn):
    """Divides by zero in a method that it may override."""

    def logits(self, features, mode):
        return 1 / 0


class Broken(Wrong):
    """Divides by zero in place of the kit's own code."""

    def __init__(self, spec, params=None):
        super().__init__(spec, params)
        self._estimator_spec = lambda *args: 1 / 0

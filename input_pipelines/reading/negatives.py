"""Negative down-sampling: each epoch keeps another share of the rows whose label is 0.

    negatives = Negatives.of("click=0.1", spec)     # keeps a tenth of the rows without a click

A hash of (seed, epoch, file, place in the file) decides whether a negative is kept, with the name
of the file in the folder of all files (`file_systems.names_of`). So each epoch keeps different
negatives, but every reading of an epoch keeps the same ones, with any number of workers and any
spelling of the paths.
"""

from __future__ import annotations

import dataclasses

import tensorflow as tf

from feature_specs.heads import Binary
from feature_specs.spec import FeatureSpec


@dataclasses.dataclass(frozen=True)
class Negatives:
    """Negative down-sampling.

    Attributes:
      label: the label of a binary head. Rows where it is 0 are negatives.
      share: the fraction of negatives to keep, in (0, 1). Each kept negative has the weight
        1 / share in the losses of all objectives. So sums over all rows keep their expectation, and
        predictions stay calibrated.
    """

    label: str
    share: float

    @classmethod
    def of(cls, text: str, spec: FeatureSpec) -> Negatives:
        """Parses `click=0.1`, or `0.1` if the spec has exactly one label of a binary head.

        Raises:
          ValueError: the text has another form, or the label cannot be used for sampling.
        """
        name, _, number = text.rpartition("=")
        try:
            share = float(number)
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise ValueError(f"got {text!r}, expected a share above 0 and below 1, as in click=0.1")
        labels = [
            spec.label_of(objective)
            for objective, entry in spec.objectives.items()
            if isinstance(entry, Binary) and entry.steps_in_row is None
        ]
        if spec.kept_together is not None:
            raise ValueError(
                f"got {text!r}: the head ranking learns from all rows of one "
                f"{spec.kept_together!r}, so negatives cannot be dropped from a list"
            )
        if not name and len(labels) == 1:
            name = labels[0]
        if name not in labels:
            hint = f"labels of binary heads are: {', '.join(labels) or 'none'}"
            problem = f"no binary head learns {name!r}" if name else "name a label, as in click=0.1"
            raise ValueError(f"got {text!r}: {problem} ({hint})")
        if spec.labels[name].missing is not None:
            raise ValueError(
                f"got {text!r}: label {name!r} may be missing (missing: "
                f"{spec.labels[name].missing}), and a row without it is neither negative nor "
                "positive"
            )
        return cls(name, share)

    def drawn(
        self,
        spec: FeatureSpec,
        label: tf.Tensor,
        *,
        seed: int,
        epochs: tf.Tensor,
        file: tf.Tensor,
        places: tf.Tensor,
    ) -> tf.Tensor:
        """Which rows each epoch keeps, bool [rows, epochs]: all positives, and a share of the rest.

        Args:
          spec: the feature spec.
          label: the values of the label as they are stored, [rows].
          seed, epochs, file, places: see `uniform`.
        """
        words = spec.labels[self.label].vocabulary
        negative = tf.equal(label, 0 if words is None else words[0])
        return (uniform(seed, epochs, file, places) < self.share) | ~negative[:, tf.newaxis]

    def weigh(self, spec: FeatureSpec, labels: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Multiplies all weights of a training batch by 1 / share in negative rows.

        If a label has a weight for each step, [rows, steps], all steps of a row are multiplied.
        """
        label = labels[self.label]
        if label.shape.rank == 2:  # The loss delayed_feedback has label and elapsed time.
            label = label[:, 0]
        rows = tf.where(tf.equal(label, 0), tf.constant(1 / self.share, tf.float32), 1.0)
        weights = {}
        for name in spec.labels:
            weight = labels.get(f"{name}/weight", tf.ones_like(rows))
            a_row = rows[:, tf.newaxis] if weight.shape.rank == 2 else rows
            weights[f"{name}/weight"] = a_row * weight
        return {**labels, **weights}


def uniform(seed: int, epochs: tf.Tensor, file: tf.Tensor, places: tf.Tensor) -> tf.Tensor:
    """float64 [rows, epochs] in [0, 1): a hash of all arguments.

    The hash is the finalizer of SplitMix64 (Steele, Lea and Flood, 2014, "Fast splittable
    pseudorandom number generators"), applied to one argument after the other.

    Args:
      seed: the seed of the training run.
      epochs: int64 [epochs].
      file: the name of the file; see `file_systems.names_of`.
      places: int64 [rows], the places of the rows in it.
    """
    name = tf.strings.to_hash_bucket_fast(file, 2**62)
    state = _mix(tf.constant(seed % 2**63, tf.int64))
    for part in (epochs, name, places[:, tf.newaxis]):
        state = _mix(state + tf.bitcast(part, tf.uint64))
    # A float64 holds 53 bits, so use the 53 upper ones.
    bits = tf.bitcast(tf.bitwise.right_shift(state, tf.constant(11, tf.uint64)), tf.int64)
    return tf.cast(bits, tf.float64) * 2.0**-53


def _mix(value: tf.Tensor) -> tf.Tensor:
    state = tf.bitcast(value, tf.uint64) + tf.constant(0x9E3779B97F4A7C15, tf.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        shifted = tf.bitwise.right_shift(state, tf.constant(shift, tf.uint64))
        state = tf.bitwise.bitwise_xor(state, shifted) * tf.constant(factor, tf.uint64)
    return tf.bitwise.bitwise_xor(state, tf.bitwise.right_shift(state, tf.constant(31, tf.uint64)))

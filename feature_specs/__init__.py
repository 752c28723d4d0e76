"""Feature specs: YAML files that describe records, the columns of a model, and its objectives.

`load` and `parse` return a frozen `FeatureSpec` and do not import TensorFlow.
`feature_specs.reference.columns` makes the `tf.feature_column` objects of a spec, and
`feature_specs.reference.columns` makes its parse dicts.
"""

from feature_specs.errors import Problem, SpecError
from feature_specs.parser.parser import load, parse
from feature_specs.spec import FeatureSpec

__all__ = ["FeatureSpec", "Problem", "SpecError", "load", "parse"]

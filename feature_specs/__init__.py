"""What a record holds: feature specs in YAML, and their two readings.

`load` and `parse` give a frozen `FeatureSpec` and import no TensorFlow. The reference reading is
in `feature_specs.reference.columns`, the parse dict in `feature_specs.reference.example_parsing`.
"""

from feature_specs.errors import Problem, SpecError
from feature_specs.parser.parser import load, parse
from feature_specs.spec import FeatureSpec

__all__ = ["FeatureSpec", "Problem", "SpecError", "load", "parse"]

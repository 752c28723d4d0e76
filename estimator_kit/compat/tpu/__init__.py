"""TPUEstimator on CPUs and GPUs, with `use_tpu=False`.

tensorflow-estimator's own TPUEstimator is used, unmodified. It imports three modules that
TensorFlow 2.16 removed, and that only TPUs use: removed_modules.py has stand-ins for them.
old_paths.py restores the names under which programs import TPUEstimator.
"""

from .old_paths import install_old_paths as install_old_paths
from .removed_modules import install_removed_modules as install_removed_modules

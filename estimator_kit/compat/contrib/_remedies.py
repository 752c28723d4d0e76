"""What to use instead of the modules of tf.contrib that this package does not have."""

from __future__ import annotations

FOR_MODULES: dict[str, str] = {
    "boosted_trees": "Train trees with YDF (pip install ydf), XGBoost or LightGBM.",
}

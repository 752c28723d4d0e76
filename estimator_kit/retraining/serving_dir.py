"""Which folder the servers of a retraining watch: the given one, or the one of the last promotion.

    model_dir/serving.json    {"serving_dir": "/live/ads"}

The file appears when a model goes live. So `inspect` and `rollback`, and a later cycle, need no
`--serving_dir`. The file has an absolute path, or null for the default, `model_dir/serving`. So a
model directory with the default can be moved. This module never changes what is served.
"""

from __future__ import annotations

import os
from typing import Optional

from feature_specs.files import documents

_FILE = "serving.json"


class _Remembered(documents.Document):
    serving_dir: Optional[str]


def chosen(given: Optional[str], model_dir: str) -> str:
    """The serving directory, from the setting `serving_dir` or from the last promotion.

    Raises:
      ConfigError: the file is damaged.
    """
    if given is not None:
        return given
    kept = _Remembered.load(os.path.join(model_dir, _FILE))
    return (kept.serving_dir if kept is not None else None) or _default(model_dir)


def remember(folder: str, model_dir: str) -> None:
    """Notes the folder in which a model goes live."""
    is_default = os.path.abspath(folder) == os.path.abspath(_default(model_dir))
    kept = _Remembered(serving_dir=None if is_default else os.path.abspath(folder))
    kept.save(os.path.join(model_dir, _FILE))


def _default(model_dir: str) -> str:
    return os.path.join(model_dir, "serving")

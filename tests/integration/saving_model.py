"""A wide & deep model that waits while it saves, so that a test can act in the meantime.

The file `pause`, next to the model directory, contains a step. At the first checkpoint from that
step on, the model waits as long as the file exists: after the data are on disk, and before the file
`checkpoint` names them. The file `paused` tells that it waits.
"""

from __future__ import annotations

import pathlib
import re
import time

from tensorflow.python.checkpoint import checkpoint_management

from estimator_kit.models import WideDeepModel

LIMIT = 120

_update = checkpoint_management.update_checkpoint_state_internal


def _update_later(save_dir, model_checkpoint_path, *arguments, **more):
    folder = pathlib.Path(save_dir).parent
    match = re.search(r"ckpt-(\d+)$", model_checkpoint_path)
    if match and (folder / "pause").exists():
        if int(match[1]) >= int((folder / "pause").read_text()):
            (folder / "paused").touch()
            end = time.monotonic() + LIMIT
            while (folder / "pause").exists() and time.monotonic() < end:
                time.sleep(0.02)
    return _update(save_dir, model_checkpoint_path, *arguments, **more)


checkpoint_management.update_checkpoint_state_internal = _update_later


class SavingModel(WideDeepModel):
    """`WideDeepModel`; importing it changes how this process saves."""

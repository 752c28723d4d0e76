"""A wide & deep model whose saving waits, so that a test can do something while it lasts.

While the file `pause` stands beside the model directory, the first checkpoint from the step that it
holds on waits when its data are on disk and the file `checkpoint` does not name them yet; the file
`paused` says so.
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

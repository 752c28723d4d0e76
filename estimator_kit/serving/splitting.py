"""Whether TensorFlow Serving may split the requests of models into several batches.

With `enable_large_batch_splitting` it fills each batch with parts of requests, and puts the answers
to the parts together by copying their bytes (`tensor::Concat` in TensorFlow's tensor_util.cc). It
does not compare their shapes. So an output that is as wide as the widest row of its batch, such as
`items` of `top_k/<objective>` or the steps of a row, would get wrong rows, or end the server.

This module reads the signatures of local models, and never loads a model.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Optional

from estimator_kit.client import messages
from estimator_kit.config.areas.serving import ServedModel


def reason_against(models: Sequence[ServedModel]) -> Optional[str]:
    """Why requests may not be split; None if all outputs of all models have a fixed width."""
    for model in models:
        reason = _reason(model)
        if reason is not None:
            return f"{model.name}: {reason}"
    return None


def _reason(model: ServedModel) -> Optional[str]:
    if "://" in model.path:
        return f"{model.path} is not read"
    names = os.listdir(model.path) if os.path.isdir(model.path) else []
    versions = [name for name in names if name.isascii() and name.isdigit()]
    if not versions:
        return f"{model.path} has no version yet"
    for version in sorted(versions):
        path = os.path.join(model.path, version, "saved_model.pb")
        try:
            with open(path, "rb") as file:
                saved = messages.message("tensorflow.SavedModel").FromString(file.read())
        except Exception as error:  # OSError, or protobuf's DecodeError.
            return f"{path} cannot be read ({type(error).__name__})"
        for meta in saved.meta_graphs:
            for name, signature in sorted(meta.signature_def.items()):
                for output, info in sorted(signature.outputs.items()):
                    sizes = [dim.size for dim in info.tensor_shape.dim]
                    if info.tensor_shape.unknown_rank or min(sizes[1:], default=0) < 0:
                        return f"the width of {output!r} of {name} differs between batches"
    return None

"""tf.contrib.tensorboard: `plugins.projector`, which is part of the package tensorboard now."""

from __future__ import annotations

__all__ = ["plugins"]

OLD_PATHS = {
    "plugins": "tensorboard.plugins",
    "plugins.projector": "tensorboard.plugins.projector",
}


def __getattr__(name: str) -> object:
    if name != "plugins":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Only projector was in tf.contrib; the import makes it an attribute of plugins.
    import tensorboard.plugins
    import tensorboard.plugins.projector

    return tensorboard.plugins

"""tf.contrib.summary: summaries that a graph writes by itself, as host calls of TPU programs do.

They are TensorFlow's own (tensorflow.python.ops.summary_ops_v2), with the meaning of 1.15: a step
is optional (the global step by default), and nothing is recorded until a program asks for it by
`always_record_summaries` or `record_summaries_every_n_global_steps`.
"""

from __future__ import annotations

from typing import Any

from tensorflow.python.ops import summary_ops_v2 as _ops

# contrib name -> name in summary_ops_v2.
_SOURCE = {
    **{
        name: name
        for name in (
            "SummaryWriter",
            "always_record_summaries",
            "audio",
            "create_file_writer",
            "create_summary_file_writer",
            "eval_dir",
            "flush",
            "generic",
            "histogram",
            "image",
            "import_event",
            "initialize",
            "never_record_summaries",
            "record_summaries_every_n_global_steps",
            "scalar",
            "summary_writer_initializer_op",
        )
    },
    "all_summary_ops": "all_v2_summary_ops",
    "graph": "graph_v1",
    "should_record_summaries": "_legacy_contrib_should_record_summaries",
}

__all__ = sorted(_SOURCE)

OLD_PATHS = ("summary", "summary_ops")

REMEDIES = {
    "create_db_writer": "Use tf.contrib.summary.create_file_writer instead: TensorFlow no longer "
    "writes summaries to a database.",
}


def __getattr__(name: str) -> Any:
    if name not in _SOURCE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(_ops, _SOURCE[name])

"""Exports a checkpoint, and kills itself before the end.

    python -m tests.integration.killed_export POINT MODEL_DIR RECORDS FOLDER SECOND

POINT is one of POINTS, MODEL_DIR a trained wide_deep of the spec in tests.conftest, RECORDS a file
with requests for the export, and SECOND the current time. The loader, a separate process, ends when
its stdin is closed.
"""

from __future__ import annotations

import os
import signal
import sys

# The points in an export at which it is killed: after the variables and before the graph; while the
# extra files are written; before the check; before the rename; after the rename.
POINTS = ("graph", "extra", "asked", "rename", "named")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arrange(point: str) -> None:
    """Patches the code at a point so that the process kills itself."""
    import tensorflow as tf

    from estimator_kit.exporters import saved_model, verification
    from feature_specs.files import staged

    rename, write = staged.rename, staged.write

    def renamed(source, target, **options):
        version = os.path.basename(target).isdigit()
        if version and point == "rename":
            die()
        rename(source, target, **options)
        if version and point == "named":
            die()

    def written(path, content, **options):
        if os.path.basename(path) == "metrics.json":
            die()
        write(path, content, **options)

    if point == "graph":
        tf.compat.v1.saved_model.Builder.save = lambda builder, **_: die()
    elif point == "extra":
        staged.write = written
    elif point == "asked":
        verification.verify = lambda *_: die()
        assert saved_model.verification is verification
    else:
        staged.rename = renamed


def export(model_dir: str, records: str, folder: str, second: float) -> str:
    """Writes the export. Does not kill the process itself."""
    import estimator_kit.compat  # noqa: F401  # tf.estimator, on every TensorFlow
    import feature_specs
    from estimator_kit.exporters import sample_rows, saved_model
    from estimator_kit.models import find_model
    from estimator_kit.tf_estimator import estimator
    from tests.conftest import DOCUMENT

    spec = feature_specs.parse(DOCUMENT)
    model = find_model("wide_deep")(spec, {"hidden_units": [4]})
    trained = estimator.Estimator(model, model_dir=model_dir)
    rows = sample_rows.sample_rows(spec, [records])
    return saved_model.export_saved_model(trained, spec, folder, rows=rows, now=second)


def main() -> int:
    point, model_dir, records, folder, second = sys.argv[1:]
    import estimator_kit.compat  # noqa: F401

    arrange(point)
    print(export(model_dir, records, folder, float(second)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Which settings of exporters go together. Imports no TensorFlow."""

from __future__ import annotations

from estimator_kit.config.settings import AllSettings
from estimator_kit.config.settings.exports import EXPORTERS
from feature_specs.errors import did_you_mean


def problems(config: AllSettings) -> list[str]:
    """Exporters that do not exist, are listed twice, or lack a setting."""
    found = []
    for i, name in enumerate(config.exporters):
        if name in config.exporters[:i]:
            found.append(f"--exporters: {name!r} is listed twice. Remove one of them.")
        elif name not in EXPORTERS:
            found.append(f"--exporters: unknown exporter {name!r}{did_you_mean(name, EXPORTERS)}")
    if "step" in config.exporters and config.export_every_steps is None:
        found.append(
            "--export_every_steps is missing. The exporter step needs the number of steps between "
            "its exports."
        )
    if "step" not in config.exporters and config.export_every_steps is not None:
        found.append("--export_every_steps is for the exporter step. Add step to --exporters.")
    if config.mode == "train_and_evaluate" and not config.exporters:
        for name in ("slices", "importance"):
            if getattr(config, name):
                found.append(f"--{name} asks an export. Add final to --exporters.")
    return found

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
    for name, kind in EXPORTERS.items():
        if kind.needs is None:
            continue
        setting, meaning = kind.needs
        is_set, is_listed = getattr(config, setting) is not None, name in config.exporters
        if is_listed and not is_set:
            found.append(f"--{setting} is missing. The exporter {name} needs {meaning}.")
        if is_set and not is_listed:
            found.append(f"--{setting} is for the exporter {name}. Add {name} to --exporters.")
    if config.mode == "train_and_evaluate" and not config.exporters:
        for name in ("slices", "importance"):
            if getattr(config, name):
                found.append(f"--{name} asks an export. Add final to --exporters.")
    return found

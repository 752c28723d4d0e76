"""Which settings go together with a tf.data service. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Optional

from estimator_kit.config.modes import TRAINING_MODES
from estimator_kit.config.settings import AllSettings

_ADDRESS = re.compile(r"grpc://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([1-9]\d{0,4})")


def problems(config: AllSettings) -> list[str]:
    """What does not go together with `--data_service`."""
    found = []
    if config.data_service is not None:
        address = _ADDRESS.fullmatch(config.data_service)
        if address is None or int(address[2]) > 65535:
            found.append(
                "--data_service: expected the address of a dispatcher, such as "
                f"grpc://host:5000, got {config.data_service!r}."
            )
    if config.mode == "data_service" and config.data_service and config.data_service_dir:
        found.append(
            "--data_service_dir is the state of a dispatcher, but --data_service makes this "
            "process a worker. Remove one of the two."
        )
    if config.data_service is None or config.mode not in TRAINING_MODES:
        return found
    why = "does not go with --data_service"
    if config.deterministic:
        found.append(
            f"--deterministic {why}, because its workers read the files in a different order each "
            "time. Remove one of the two."
        )
    if not config.shuffle:
        found.append(
            f"--noshuffle {why}, because its workers read the files in no fixed order. Remove one "
            "of the two."
        )
    if config.profile_input:
        found.append(
            f"--profile_input {why}: it profiles only this process, but the workers compute the "
            "input. Remove one of the two."
        )
    if config.input_cache_dir:
        found.append(
            f"--input_cache_dir {why}, because the workers transform the rows and keep none. "
            "Remove one of the two."
        )
    if config.train_mix:
        found.append(
            f"--train_mix {why}, because one process must read all parts of a mix to keep their "
            "shares. Use --train_files, or remove --data_service."
        )
    if config.corrupt_data_policy == "skip_record":
        found.append(
            f"--corrupt_data_policy=skip_record {why}: only Python code can read damaged files, "
            "and the workers do not run it. Use quarantine, which leaves such files out."
        )
    return found


def kept_together_problem(config: AllSettings, name: Optional[str]) -> Optional[str]:
    """The problem of rows that must stay together in a batch, or None."""
    if config.data_service is None or name is None:
        return None
    return (
        f"--data_service does not go with the head ranking, which needs all rows of one {name!r} "
        "in one batch: the last batches of the workers are joined and cut again, row by row. "
        "Remove --data_service."
    )

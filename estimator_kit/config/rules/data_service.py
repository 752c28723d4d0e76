"""Which flags go with `--data_service`, and which could not be kept there. No TensorFlow."""

from __future__ import annotations

import re
from typing import Optional

from estimator_kit.config.settings import AllSettings

_ADDRESS = re.compile(r"grpc://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([1-9]\d{0,4})")


def problems(config: AllSettings) -> list[str]:
    """What of the flags does not go together with a tf.data service."""
    found = []
    trains = config.mode in ("train", "train_and_evaluate")
    if config.data_service is not None:
        address = _ADDRESS.fullmatch(config.data_service)
        if address is None or int(address[2]) > 65535:
            found.append(
                f"--data_service: got {config.data_service!r}, expected the address of a "
                "dispatcher, as grpc://host:5000"
            )
    if config.mode == "data_service_worker" and config.data_service is None:
        found.append(
            "--data_service is missing; --mode=data_service_worker needs the address of its "
            "dispatcher, as grpc://host:5000"
        )
    if config.data_service_dir is not None and config.mode == "data_service_worker":
        found.append(
            "--data_service_dir is for --mode=data_service_dispatcher; a worker keeps nothing"
        )
    if config.data_service is None or not trains:
        return found
    why = "the workers of --data_service take files as they come"
    if config.deterministic:
        found.append(f"--deterministic: {why}, in another order each time; drop one of the two")
    if not config.shuffle:
        found.append(f"--noshuffle: {why}, in no order that could be kept; drop one of the two")
    if config.profile_input:
        found.append(
            "--profile_input: the input is computed by the workers of --data_service, and the "
            "profile is of this process alone; drop one of the two"
        )
    if config.input_cache_dir:
        found.append(
            "--input_cache_dir: the workers of --data_service transform rows on their machines, "
            "and keep none; drop one of the two"
        )
    if config.train_mix:
        found.append(
            f"--train_mix: {why}, and the shares of a mix are kept by one process that reads all "
            "its parts; give --train_files, or drop --data_service"
        )
    if config.corrupt_data_policy == "skip_record":
        found.append(
            "--corrupt_data_policy=skip_record: damaged files are read by Python, which the "
            "workers of --data_service do not run; use quarantine, which leaves such files out"
        )
    return found


def kept_together_problem(config: AllSettings, name: Optional[str]) -> Optional[str]:
    """What to say of rows that are kept together, or None where nothing is wrong."""
    if config.data_service is None or name is None:
        return None
    return (
        f"--data_service: the head ranking learns from rows of one {name!r} together, and the last "
        "batches of the workers are cut anew, row by row; train without it"
    )

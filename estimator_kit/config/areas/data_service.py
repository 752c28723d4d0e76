"""Batches from a tf.data service, and the servers of one. Imports no TensorFlow."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.areas.base import Settings, setting
from estimator_kit.config.areas.program import Program

_ADDRESS = re.compile(r"grpc://(\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):([1-9]\d{0,4})")


class DataService(Settings):
    """Batches from a tf.data service, and the servers of one."""

    heading: ClassVar[str] = "tf.data service"

    data_service: Optional[str] = setting(
        None,
        "grpc://host:port of the dispatcher of a tf.data service. The workers of the service "
        "then read, shuffle, parse and transform the training rows on other machines, which "
        "must reach the files by the same paths. Each row is read once an epoch, in no fixed "
        "order. If a worker is lost, the rows that it holds are lost too. With "
        "--mode=data_service, this process becomes a worker of this dispatcher; without the flag, "
        "it becomes a dispatcher.",
        changes="rows",
    )
    data_service_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        0,
        "The port to listen on; 0 takes a free port, and a line of output says which.",
        changes="nothing",
    )
    data_service_host: Optional[str] = setting(
        None,
        "The name by which other machines reach this one; by default its host name (localhost "
        "for a worker whose dispatcher is on localhost).",
        changes="nothing",
    )
    data_service_dir: Optional[str] = setting(
        None,
        "A folder for the state of the dispatcher. If you start it again with the same folder, "
        "it continues its trainings on the same port.",
        changes="nothing",
    )


def problems(service: DataService, program: Program) -> list[str]:
    """What does not go together with `--data_service`."""
    lines = []
    if service.data_service is not None:
        address = _ADDRESS.fullmatch(service.data_service)
        if address is None or int(address[2]) > 65535:
            lines.append(
                "--data_service: expected the address of a dispatcher, such as "
                f"grpc://host:5000, got {service.data_service!r}."
            )
    if program.mode == "data_service" and service.data_service and service.data_service_dir:
        lines.append(
            "--data_service_dir is the state of a dispatcher, but --data_service makes this "
            "process a worker. Remove one of the two."
        )
    return lines


def kept_together_problem(service: DataService, name: Optional[str]) -> Optional[str]:
    """The problem of rows that must stay together in a batch, or None."""
    if service.data_service is None or name is None:
        return None
    return (
        f"--data_service does not go with the head ranking, which needs all rows of one {name!r} "
        "in one batch: the last batches of the workers are joined and cut again, row by row. "
        "Remove --data_service."
    )

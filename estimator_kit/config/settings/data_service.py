"""Batches from a tf.data service, and the servers of one."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Settings, setting
from feature_specs.entry import PositiveFloat


class DataServiceSettings(Settings):
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
    data_service_timeout_secs: PositiveFloat = setting(
        60.0,
        "With --data_service: seconds to wait for the dispatcher and a first worker, and for "
        "rows that are missing at the end, before they count as lost with a worker. A step may "
        "take three times as long.",
        changes="nothing",
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

"""Batches that a tf.data service computes, and its servers."""

from __future__ import annotations

from typing import Annotated, ClassVar, Optional

from pydantic import Field

from estimator_kit.config.settings.base import Settings, setting
from feature_specs.entry import PositiveFloat


class DataServiceSettings(Settings):
    """Batches that a tf.data service computes, and its servers."""

    heading: ClassVar[str] = "tf.data service"

    data_service: Optional[str] = setting(
        None,
        "grpc://host:port of the dispatcher of a tf.data service. Its workers then read, "
        "shuffle, parse and transform the training rows, on other machines, which have to reach "
        "the files under the same names. Each row is read once an epoch, in no fixed order; a "
        "worker that is lost takes the rows along that it had in hand. With "
        "--mode=data_service_worker: the dispatcher that the worker belongs to.",
    )
    data_service_timeout_secs: PositiveFloat = setting(
        60.0,
        "With --data_service: seconds to wait for the dispatcher and a first worker; for rows "
        "that are missing at the end, before they are taken for lost with a worker; and a third "
        "of those that a step may take.",
    )
    data_service_port: Annotated[int, Field(ge=0, le=65535)] = setting(
        0,
        "With --mode=data_service_dispatcher or data_service_worker: the port to listen at; 0 "
        "takes a free one. The line that is printed says which.",
    )
    data_service_host: Optional[str] = setting(
        None,
        "With these modes: the name under which others reach this machine; its host name when "
        "not given (localhost for a worker whose dispatcher is there).",
    )
    data_service_dir: Optional[str] = setting(
        None,
        "With --mode=data_service_dispatcher: a folder for what it knows. Started again with "
        "the same one it goes on with its trainings, at the same port.",
    )

"""Clients of TensorFlow Serving, and of `--mode=serve`, that need no TensorFlow.

    from estimator_kit_client import GrpcClient, Rows      # pip install estimator-kit-client

    rows = Rows.of_export("runs/ads/export/best/1700000000")
    with GrpcClient("localhost:8500", "ads", rows=rows) as client:
        arrays = client.predict([{"item_price": 9.5, "interests": ["books"]}])

`RestClient("http://localhost:8501", "ads", rows=rows)` has the same methods. They make Examples of
dicts or of a DataFrame by the export's own spec, send them in batches, try again while a server
is not there, up to a deadline, and return arrays. Importing this takes NumPy and protobuf alone;
GrpcClient imports grpcio when it is made.

This folder is two things: the package `estimator_kit.client` of the kit, and the distribution
estimator-kit-client with the package `estimator_kit_client`, which needs nothing of the kit. So its
modules import each other by relative imports, and nothing else of the kit (`Rows.of_export` alone
asks for `feature_specs`, where it is given YAML).
"""

from __future__ import annotations

from .base import Classes
from .errors import RowError, ServingError
from .grpc_client import GrpcClient
from .rest_client import RestClient
from .rows import Rows
from .signatures import Metadata, Signature, TensorForm

__all__ = [
    "Classes",
    "GrpcClient",
    "Metadata",
    "RestClient",
    "RowError",
    "Rows",
    "ServingError",
    "Signature",
    "TensorForm",
]

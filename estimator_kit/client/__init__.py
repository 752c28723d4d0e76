"""Clients of TensorFlow Serving, and of `--mode=serve`, that need no TensorFlow.

    from estimator_kit.client import GrpcClient, Rows

    rows = Rows.of_export("runs/ads/export/best/1700000000")
    with GrpcClient("localhost:8500", "ads", rows=rows) as client:
        arrays = client.predict([{"item_price": 9.5, "interests": ["books"]}])

`RestClient("http://localhost:8501", "ads", rows=rows)` has the same methods. They make Examples of
dicts or of a DataFrame by the export's own spec, send them in batches, try again while a server
is not there, up to a deadline, and return arrays. `estimator-kit[client]` asks for what they need.
Importing this takes NumPy and protobuf alone.
"""

from __future__ import annotations

from estimator_kit.client.base import Classes
from estimator_kit.client.errors import RowError, ServingError
from estimator_kit.client.grpc_client import GrpcClient
from estimator_kit.client.rest_client import RestClient
from estimator_kit.client.rows import Rows
from estimator_kit.client.signatures import Metadata, Signature, TensorForm

__all__ = [
    "Classes", "GrpcClient", "Metadata", "RestClient", "RowError", "Rows", "ServingError",
    "Signature", "TensorForm",
]  # fmt: skip

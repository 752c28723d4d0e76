"""Clients for TensorFlow Serving and `--mode=serve` that do not need TensorFlow.

    from estimator_kit_client import GrpcClient, Rows      # pip install estimator-kit-client

    rows = Rows.of_export("runs/ads/export/best/1700000000")
    with GrpcClient("localhost:8500", "ads", rows=rows) as client:
        arrays = client.predict([{"item_price": 9.5, "interests": ["books"]}])

`RestClient("http://localhost:8501", "ads", rows=rows)` has the same methods. The clients make
Examples of dicts or a DataFrame with the export's spec, send them in batches, try again until a
deadline while a server is unavailable, and return arrays. Importing this package needs only NumPy
and protobuf; a GrpcClient imports grpcio when you create it.

This folder is both the package `estimator_kit.client` of the kit, and the package
`estimator_kit_client` of the distribution estimator-kit-client, which does not need the kit. So its
modules use relative imports, and import nothing else from the kit. The only exception:
`Rows.of_export` imports `feature_specs` if it gets YAML.
"""

from __future__ import annotations

from .base import Classes
from .connections import ServingError
from .grpc_client import GrpcClient
from .rest_client import RestClient
from .rows import RowError, Rows
from .tensors import Metadata, Signature, TensorForm

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

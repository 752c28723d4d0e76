"""`--mode=serve`: TensorFlow Serving's protocols over a version directory, for development.

    versions.py        which versions of a model are live; loads, checks, swaps, lets go
    loaded_model.py    one SavedModel in a session
    warm_up.py         what a version has to answer before it goes live
    answers.py         predict, classify, regress: arrays in, arrays out
    grpc_service.py    the official gRPC services; grpc_server.py, their server, with reflection
    health.py          gRPC's health service; lasting_calls.py, calls that go on until clients go
    rest_app.py        the REST paths; json_requests.py and json_answers.py, their bodies;
                       json_parser.py reads JSON without stopping other threads
    server.py          both servers, until a signal; rest_server.py, that of REST
    config_files.py    `--mode=serving_config`: TensorFlow Serving's own files

The transport is grpcio's and waitress's. Production belongs to TensorFlow Serving itself.
"""

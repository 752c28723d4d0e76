"""The gRPC service grpc.health.v1.Health: whether the models can answer.

| service | SERVING when |
| --- | --- |
| empty, `tensorflow.serving.PredictionService` | every model has a live version |
| the name of a model | this model has a live version |

After `leave`, all services are NOT_SERVING, although the server still answers. `Models` is
the only source: `Check` asks it each time, and this module keeps only the last status that each
`Watch` got. The messages come from grpcio-health-checking. This module does not use its servicer,
which sends messages under a lock, so that one client that does not read blocks all others.

A `Watch` stays open until its client ends it. It would occupy a thread that predictions need, and a
server that stops would wait for it until its deadline. So these methods run in a small separate
pool, and `end` cancels open calls. `LastingCalls` uses two attributes of methods that grpcio calls
experimental, `experimental_thread_pool` and `experimental_non_blocking`, as grpcio-health-checking
does.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any, Optional

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from estimator_kit.serving.errors import shortened
from estimator_kit.serving.live_versions import Models
from feature_specs.errors import did_you_mean


class LastingCalls:
    """The open calls of one service.

    Args:
      name: the name of its threads.
      threads: the number of threads.
    """

    def __init__(self, name: str, threads: int):
        self._pool = futures.ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._lock = threading.Lock()
        self._contexts: set[Any] = set()
        self._ended = False

    def method(self, method: Callable[..., Any], *, non_blocking: bool = False) -> Any:
        """Makes a method of a service that grpcio calls in these threads.

        Args:
          method: a function of a request and a context.
          non_blocking: whether the method gets a third argument, `send_response_callback`. Then the
            call stays open after the method returns, and needs no thread.
        """
        partial: Any = functools.partial(method)
        partial.experimental_thread_pool = self._pool
        partial.experimental_non_blocking = non_blocking
        return partial

    def run(self, work: Callable[..., Any], *arguments: Any) -> None:
        """Runs a function in these threads."""
        self._pool.submit(work, *arguments)

    def add(self, context: Any) -> None:
        """Keeps track of a call until it ends. After `end`, cancels it at once."""
        with self._lock:
            self._contexts.add(context)
            is_late = self._ended
        if not context.add_callback(lambda: self._remove(context)):
            self._remove(context)  # The call has already ended.
        if is_late:
            context.cancel()

    def end(self) -> None:
        """Cancels all open and all later calls."""
        with self._lock:
            self._ended = True
            left = list(self._contexts)
        for context in left:
            context.cancel()

    def _remove(self, context: Any) -> None:
        with self._lock:
            self._contexts.discard(context)


_Response = health_pb2.HealthCheckResponse

PREDICTION_SERVICE = "tensorflow.serving.PredictionService"

# More than one, so that a client that does not read does not block other clients.
_THREADS = 4


@dataclasses.dataclass(eq=False)
class _Watch:
    """A call of `Watch`: its service, and the last status that it got."""

    service: str
    send: Callable[[Any], None]
    last_sent: Optional[int] = None
    is_busy: bool = False


class Health(health_pb2_grpc.HealthServicer):
    """Answers `Check` and `Watch`, but not `List`, which newer clients know.

    Args:
      models: the models of the server. They call `changed` after each look at a folder.
    """

    def __init__(self, models: Models):
        self._models = models
        self._leaving = False
        self._lock = threading.Lock()
        self._watches: set[_Watch] = set()
        self._calls = LastingCalls("health", _THREADS)
        self.Check = self._calls.method(self.check)
        self.Watch = self._calls.method(self.watch, non_blocking=True)
        models.after_look = self.changed

    def check(self, request: Any, context: Any) -> Any:
        """The status of a service; NOT_FOUND if the service does not exist."""
        status = self._status(request.service)
        if status == _Response.SERVICE_UNKNOWN:
            name = request.service[:200]
            hint = did_you_mean(name, [PREDICTION_SERVICE, *self._models.live()])
            message = f"unknown service {name!r}{hint}"
            context.abort(grpc.StatusCode.NOT_FOUND, shortened(message))
        return _Response(status=status)

    def watch(
        self, request: Any, context: Any, send_response_callback: Callable[[Any], None]
    ) -> None:
        """Sends the status of a service now and when it changes."""
        watch = _Watch(request.service, send_response_callback)
        with self._lock:
            self._watches.add(watch)
        if not context.add_callback(lambda: self._remove(watch)):
            self._remove(watch)
        self._calls.add(context)
        self.changed()

    def List(self, request: Any, context: Any) -> Any:  # noqa: N802
        context.abort(grpc.StatusCode.UNIMPLEMENTED, "List is not served here. Use Check or Watch.")

    def changed(self) -> None:
        """Sends the status to each `Watch` whose status changed. Does not wait for the clients."""
        with self._lock:
            for watch in self._watches:
                if not watch.is_busy and self._status(watch.service) != watch.last_sent:
                    watch.is_busy = True
                    self._calls.run(self._tell, watch)

    def leave(self) -> None:
        """From now on every service is NOT_SERVING."""
        self._leaving = True
        self.changed()

    def end(self) -> None:
        """Ends the calls of `Watch`."""
        self._calls.end()

    def _status(self, service: str) -> int:
        live = {name: bool(versions) for name, versions in self._models.live().items()}
        if service in ("", PREDICTION_SERVICE):
            is_serving = all(live.values())
        elif service in live:
            is_serving = live[service]
        else:
            unknown: int = _Response.SERVICE_UNKNOWN
            return unknown
        status: int = (
            _Response.SERVING if is_serving and not self._leaving else _Response.NOT_SERVING
        )
        return status

    def _tell(self, watch: _Watch) -> None:
        while True:
            with self._lock:
                status = self._status(watch.service)
                if status == watch.last_sent or watch not in self._watches:
                    watch.is_busy = False
                    return
                watch.last_sent = status
            watch.send(_Response(status=status))  # This may wait for the client.

    def _remove(self, watch: _Watch) -> None:
        with self._lock:
            self._watches.discard(watch)

"""The one reader of TF_CONFIG.

Training here is one process. A TF_CONFIG that names a cluster is refused instead of being half
obeyed: tf.estimator would start a server for it that nothing ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from estimator_kit.errors import ConfigError


def check_single_process(environment: Mapping[str, str]) -> None:
    """Raises ConfigError when TF_CONFIG is malformed or names more than one task."""
    text = environment.get("TF_CONFIG", "").strip()
    if not text:
        return
    try:
        cluster = json.loads(text).get("cluster") or {}
        tasks = [f"{job}:{i}" for job, hosts in cluster.items() for i in range(len(hosts))]
    except (ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"TF_CONFIG is no JSON of a cluster and a task: {error}; "
            'expected {"cluster": {"chief": ["host:port"]}, "task": {"type": "chief", "index": 0}}'
        ) from error
    if len(tasks) > 1:
        raise ConfigError(
            f"TF_CONFIG names a cluster of {len(tasks)} tasks ({', '.join(tasks)}), and this "
            "version trains in one process; unset TF_CONFIG"
        )

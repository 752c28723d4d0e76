"""tf.contrib.distribute, cluster_resolver and eager, on a machine with a CPU."""

import pytest
import tensorflow as tf

from estimator_kit.compat.contrib import cluster_resolver, distribute, eager


def test_no_gpus_are_the_cpu():
    strategy = distribute.MirroredStrategy(num_gpus=0)
    assert isinstance(strategy, tf.compat.v1.distribute.MirroredStrategy)
    assert strategy.extended.worker_devices == ("/job:localhost/replica:0/task:0/device:CPU:0",)


def test_devices_and_their_number_are_an_error():
    with pytest.raises(ValueError, match="Must only specify one of `devices` and `num_gpus`"):
        distribute.MirroredStrategy(["/cpu:0"], num_gpus=1)


def test_the_way_of_adding_gradients():
    made = distribute.AllReduceCrossTowerOps("hierarchical_copy", num_packs=2)
    assert isinstance(made, tf.distribute.HierarchicalCopyAllReduce)


def test_the_empty_name_is_no_tpu():
    resolver = cluster_resolver.TPUClusterResolver("", zone=None, project=None)
    assert (resolver.master(), resolver.cluster_spec(), resolver.get_job_name()) == ("", None, None)
    config = tf.compat.v1.estimator.tpu.RunConfig(cluster=resolver)
    assert (config.master, config.is_chief) == ("", True)
    named = cluster_resolver.TPUClusterResolver("grpc://10.1.2.3:8470")
    assert named.master() == "grpc://10.1.2.3:8470"


def test_lists_devices():
    assert eager.list_devices() == ["/job:localhost/replica:0/task:0/device:CPU:0"]
    assert eager.num_gpus() == 0


def test_gradients():
    x = eager.Variable(3.0)
    ((gradient, of),) = eager.implicit_gradients(lambda: x * x)()
    assert (float(gradient), of) == (6.0, x)
    assert [int(n) for n in eager.Iterator(tf.data.Dataset.range(2))] == [0, 1]

"""tf.contrib.summary, as host calls of TPU programs use it: in graphs, with or without a step."""

import tensorflow.compat.v1 as tf

from estimator_kit.compat.contrib import summary


def written(folder):
    tags = []
    for file in folder.iterdir():
        for event in tf.train.summary_iterator(str(file)):
            tags += [(event.step, value.tag) for value in event.summary.value]
    return sorted(tags)


def test_writes_what_a_program_asks_for(graph, tmp_path):
    """The tag with a family was recorded from TensorFlow 1.15."""
    step = tf.train.get_or_create_global_step()
    next_step = tf.assign_add(step, 1)
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        with summary.always_record_summaries():
            summary.scalar("loss", tf.constant(1.0))
            summary.scalar("lr", tf.constant(0.5), step=tf.constant(7, tf.int64), family="opt")
        with summary.record_summaries_every_n_global_steps(2, step):
            summary.histogram("weights", tf.constant([1.0, 2.0]))
        with summary.never_record_summaries():
            summary.scalar("never", tf.constant(1.0))
        summary.scalar("without_asking", tf.constant(1.0))
        summaries = summary.all_summary_ops()
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            summary.initialize(session=session)
            for _ in range(3):
                session.run(summaries)
                session.run(next_step)
            session.run(summary.flush())
            session.run(writer.close())
    assert written(tmp_path) == [
        (0, "loss"),
        (0, "weights"),
        (1, "loss"),
        (2, "loss"),
        (2, "weights"),
        *[(7, "opt/opt/lr")] * 3,
    ]


def test_a_writer_without_a_folder_writes_nothing(graph):
    with summary.create_file_writer(None).as_default(), summary.always_record_summaries():
        pass
    assert summary.all_summary_ops() == []

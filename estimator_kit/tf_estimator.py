"""The one place where estimator_kit reaches for `tf.estimator`; everything else imports it here."""

import tensorflow as tf

estimator = tf.estimator
ModeKeys = estimator.ModeKeys

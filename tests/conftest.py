"""Shared by all tests: a quiet TensorFlow, and small data to train on."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

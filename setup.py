"""Packaging of estimator_kit: three packages, listed one by one, and the program."""

import pathlib

from setuptools import setup

setup(
    name="estimator-kit",
    version="0.1.0",
    description="Train, serve and retrain TensorFlow Estimator models from declarative specs",
    long_description=pathlib.Path(__file__).with_name("README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    python_requires=">=3.9,<3.14",
    packages=[
        "feature_specs",
        "feature_specs.embeddings",
        "feature_specs.heads",
        "feature_specs.kinds",
        "feature_specs.parser",
        "feature_specs.reference",
        "feature_specs.sections",
        "feature_specs.validation",
        "input_pipelines",
        "input_pipelines.integrity",
        "input_pipelines.prepare",
        "input_pipelines.prepare.analyze",
        "input_pipelines.prepare.beam",
        "input_pipelines.prepare.convert",
        "input_pipelines.prepare.metadata_schema",
        "input_pipelines.prepare.tables",
        "input_pipelines.reading",
        "input_pipelines.record_files",
        "input_pipelines.row_cache",
        "input_pipelines.synthetic",
        "input_pipelines.transform",
        "estimator_kit",
        "estimator_kit.checkpoints",
        "estimator_kit.checkpoints.warm_start",
        "estimator_kit.client",
        "estimator_kit.commands",
        "estimator_kit.commands.validation",
        "estimator_kit.compat",
        "estimator_kit.config",
        "estimator_kit.config.rules",
        "estimator_kit.config.settings",
        "estimator_kit.distributed",
        "estimator_kit.embeddings",
        "estimator_kit.exporters",
        "estimator_kit.exporters.runtimes",
        "estimator_kit.model",
        "estimator_kit.model.keras",
        "estimator_kit.model.objectives",
        "estimator_kit.model.places",
        "estimator_kit.models",
        "estimator_kit.observing",
        "estimator_kit.optimizers",
        "estimator_kit.optimizers.combining",
        "estimator_kit.retraining",
        "estimator_kit.scoring",
        "estimator_kit.serving",
        "estimator_kit.training",
        "estimator_kit.training.hooks",
    ],
    package_data={"feature_specs": ["catalog/*.yaml", "spec.schema.json"]},
    install_requires=[
        "absl-py>=2.0",
        "google-crc32c>=1.5,<2",
        "numpy>=1.23",  # TensorFlow 2.15 itself asks for numpy < 2 and protobuf < 5
        "protobuf>=3.20.3",
        "pydantic>=2.6,<3",
        "PyYAML>=6.0",
        "setuptools<81",  # tensorboard imports pkg_resources
        "tensorflow>=2.15,<2.22",
        "tensorflow-estimator==2.15.0",
        "tf_keras>=2.15,<2.22",  # each release asks for TensorFlow of its own minor version
    ],
    extras_require={
        "analyze": ["datasketches>=5.1,<6"],
        "beam": ["apache-beam>=2.69,<3"],  # beside TensorFlow 2.21: protobuf 6, pyarrow < 26
        # With TensorFlow 2.15.1 or older; there is no later release that fits Estimators.
        "dynamic": ["tensorflow-recommenders-addons==0.7.2"],
        "metadata": ["tensorflow-metadata>=1.15"],  # before TensorFlow 2.21: < 1.21
        # Before TensorFlow 2.18: onnx < 1.18. Python 3.9: pip install --no-deps tf2onnx==1.16.1
        "onnx": ["onnx>=1.17", "onnxruntime>=1.19", "tf2onnx>=1.17 ; python_version >= '3.10'"],
        "prometheus": ["prometheus-client>=0.20"],  # for --prometheus_file
        "ranking": ["tensorflow-ranking==0.5.5"],  # after TensorFlow 2.15: pip install --no-deps
        # tensorflow-serving-api: the release of TensorFlow's own line; it asks for that TensorFlow.
        # With protobuf 4: grpcio-health-checking and grpcio-reflection < 1.63; with 5: < 1.72.
        "serving": [
            "grpcio>=1.62.3",
            "grpcio-health-checking>=1.62.3",
            "grpcio-reflection>=1.62.3",
            "protobuf>=4.22",
            "tensorflow-serving-api>=2.15.1",
            "waitress>=3.0.1,<4",
        ],
        "tables": ["pyarrow>=18"],  # beside TensorFlow 2.15: < 25
        "test": [
            "datasketches>=5.1,<6",
            "grpcio-health-checking>=1.62.3",
            "grpcio-reflection>=1.62.3",
            "hypothesis",
            "jsonschema",
            "mypy",
            "prometheus-client>=0.20",
            "pyarrow>=18",
            "pytest",
            "pytest-xdist",
            "ruff",
            "scikit-learn>=1.5",
            "tensorflow-metadata>=1.15",
            "tensorflow-serving-api>=2.15.1",
            "types-PyYAML",
            "waitress>=3.0.1,<4",
            "wheel",
            "onnx>=1.17 ; python_version >= '3.10'",
            "onnxruntime>=1.19 ; python_version >= '3.10'",
            "tf2onnx>=1.17 ; python_version >= '3.10'",
        ],
    },
    entry_points={"console_scripts": ["estimator-kit=estimator_kit.main:program"]},
    classifiers=[
        "Programming Language :: Python :: 3.9",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
    ],
)

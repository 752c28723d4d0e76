"""Features with `decode`: numbers equal NumPy's, images equal TensorFlow's, and errors.

tests/integration/test_encoded_bytes trains, exports and serves such a model.
"""

from __future__ import annotations

import copy
import struct
import zlib

import numpy as np
import pytest
import tensorflow as tf

import estimator_kit as ek
import feature_specs
from estimator_kit.model import input_layer
from estimator_kit.model.input_layer import DNN_SCOPE
from feature_specs.feature import RAW_BYTES
from input_pipelines.integrity import data_scan, diagnosis, spec_check
from input_pipelines.record_files import writing
from input_pipelines.transform.transforms import Transform
from tests.conftest import place
from tests.feature_specs.broken import problems_of

PIXELS = {"dtype": "string", "decode": {"raw": {"dtype": "uint8", "shape": [2, 3]}}}
PHOTO = {"dtype": "string", "decode": {"image": {"height": 2, "width": 2, "channels": 3}}}
DOCUMENT = {
    "features": {"pixels": PIXELS, "photo": PHOTO},
    "columns": {"pixels": {"numeric": "pixels"}, "photo": {"numeric": "photo"}},
    "groups": {"deep": ["pixels", "photo"]},
    "labels": {"y": {"dtype": "int64"}},
    "objectives": {"y": {"head": "binary"}},
}


def png(pixels):
    """Encodes an 8-bit RGB image [height, width, 3] as a PNG, following the specification."""
    pixels = np.asarray(pixels, np.uint8)
    height, width, _ = pixels.shape
    # Each line begins with its filter type. 0 means no filter.
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind, data):
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [(b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in parts)


# Red, green; blue, gray.
SQUARE = [[[255, 0, 0], [0, 255, 0]], [[0, 0, 255], [51, 51, 51]]]
GOOD = {"pixels": bytes(range(6)), "photo": png(SQUARE), "y": 0}


def gif(frames):
    """A GIF of 1 x 1 pixels with the given number of frames."""
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + bytes([255, 0, 0, 0, 0, 0])
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\x00"
    return head + frame * frames + b"\x3b"


def spec_of(*, pixels=None, photo=None, **columns):
    """The spec above with a different `decode` and changed columns."""
    document = copy.deepcopy(DOCUMENT)
    if pixels is not None:
        document["features"]["pixels"]["decode"]["raw"] = pixels
    if photo is not None:
        document["features"]["photo"]["decode"]["image"].update(photo)
    for name, entry in columns.items():
        document["columns"][name].update(entry)
    return feature_specs.parse(document)


def record(**values):
    row = {**GOOD, **values}
    return writing.example({n: v for n, v in row.items() if v is not None}).SerializeToString()


def features_of(spec, *records):
    return {n: v.numpy() for n, v in Transform(spec).features(tf.constant(records)).items()}


# --- Numbers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("little_endian", [True, False])
@pytest.mark.parametrize("dtype", sorted(RAW_BYTES))
def test_numbers_are_those_of_numpy(dtype, little_endian):
    spec = spec_of(pixels={"dtype": dtype, "shape": [2, 3], "little_endian": little_endian})
    stored_type = np.dtype(dtype).newbyteorder("<" if little_endian else ">")
    rows = np.array([[1, 2, 3, 100, 120, 0], [7, 0, 0, 0, 0, 127]], stored_type)
    if np.dtype(dtype).kind in "if":
        rows = -rows
    assert spec.features["pixels"].decode.stored_bytes == len(rows[0].tobytes())
    found = features_of(spec, *(record(pixels=row.tobytes()) for row in rows))["pixels"]
    assert found.dtype == np.float32
    expected = [np.frombuffer(row.tobytes(), stored_type).astype(np.float32) for row in rows]
    np.testing.assert_array_equal(found, expected)


def test_shapes_normalizers_and_buckets_are_those_of_other_numbers():
    document = copy.deepcopy(DOCUMENT)
    raw = {"dtype": "int16", "shape": [2]}
    document["features"]["pixels"]["decode"] = {"raw": raw}
    document["features"]["one"] = {"dtype": "string", "decode": {"raw": {"dtype": "float64"}}}
    document["columns"]["pixels"]["normalizer"] = [
        {"minmax": {"min": -10, "max": 10}}, {"clip": {"min": 0, "max": 0.5}},
    ]  # fmt: skip
    document["columns"]["one"] = {"numeric": "one", "normalizer": "log1p"}
    document["columns"]["cut"] = {"bucketized": "pixels", "boundaries": [0.2, 0.4]}
    document["groups"]["deep"] += ["one", "cut"]
    spec = feature_specs.parse(document)
    values = {"pixels": np.array([-5, 1000], "<i2").tobytes(), "one": struct.pack("<d", 3.5)}
    found = features_of(spec, record(**values))
    np.testing.assert_array_equal(found["pixels"], [[0.25, 0.5]])  # (-5 + 10) / 20.
    np.testing.assert_allclose(found["one"], [[np.log(4.5)]], rtol=1e-6)
    # 0.25 is in bucket 1 of the first number, 0.5 in bucket 2 of the second, which is id 3 + 2.
    np.testing.assert_array_equal(found["cut"], [[1, 5]])
    assert spec.size_of("cut") == 6 and input_layer.width_of(spec, "pixels") == 2


def test_zeros_for_what_is_missing():
    document = copy.deepcopy(DOCUMENT)
    for name in ("pixels", "photo"):
        document["features"][name] = {**document["features"][name], "default": "zeros"}
    document["columns"]["pixels"]["normalizer"] = {"zscore": {"mean": 1, "stddev": 2}}
    spec = feature_specs.parse(document)
    missing = [record(pixels=None, photo=b""), record(pixels=b"", photo=None)]
    found = features_of(spec, record(), *missing)
    expected = (np.arange(6) - 1) / 2
    # The decoded values are zeros. The normalizer is applied afterwards.
    np.testing.assert_allclose(found["pixels"], [expected, [-0.5] * 6, [-0.5] * 6], atol=1e-6)
    np.testing.assert_array_equal(found["photo"][1:], np.zeros([2, 12]))
    assert found["photo"][0].any()
    assert diagnosis.explain(spec, record(pixels=None, photo=b"")) is None
    assert ek.make_parse_example_spec(spec)["photo"] == tf.io.FixedLenFeature((), tf.string, "")


def test_a_batch_of_no_record():
    empty = Transform(spec_of()).features(tf.constant([], tf.string))
    assert {n: v.shape.as_list() for n, v in empty.items()} == {"pixels": [0, 6], "photo": [0, 12]}


# --- Images ---------------------------------------------------------------------------------------


def test_a_png_made_by_hand():
    found = features_of(spec_of(), record())["photo"]
    np.testing.assert_array_equal(found, np.reshape(SQUARE, [1, 12]).astype(np.float32) / 255)
    unscaled = features_of(spec_of(photo={"scale": False}), record())["photo"]
    np.testing.assert_array_equal(unscaled, np.reshape(SQUARE, [1, 12]))
    # Along an edge from a to b, the pixel centers are at -1/4, 1/4, 3/4 and 5/4 of the way: a, then
    # 3/4 a + 1/4 b, and so on.
    wide = features_of(spec_of(photo={"width": 4}), record())["photo"].reshape(2, 4, 3)
    part = np.array([[1, 0], [0.75, 0.25], [0.25, 0.75], [0, 1]])
    np.testing.assert_allclose(wide, part @ (np.array(SQUARE) / 255), atol=1e-6)
    mean = {"height": 1, "width": 1, "resize": "area"}
    np.testing.assert_allclose(
        features_of(spec_of(photo=mean), record())["photo"],
        [[(255 + 51) / 4 / 255] * 3], rtol=1e-6,
    )  # fmt: skip


FORMATS = {
    "jpeg": tf.io.encode_jpeg, "png": tf.io.encode_png,
    "gif": lambda pixels: gif(1), "bmp": lambda pixels: bmp(pixels.numpy()),
}  # fmt: skip


def bmp(pixels):
    """A BMP: 24 bits per pixel in BGR order, lines from the bottom, each padded to 4 bytes."""
    height, width, _ = pixels.shape
    lines = b"".join(line[:, ::-1].tobytes() + bytes(-3 * width % 4) for line in pixels[::-1])
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(lines), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(lines), 0, 0, 54) + info + lines


@pytest.mark.parametrize("resize", ["bilinear", "nearest", "area", "bicubic"])
@pytest.mark.parametrize("kind", FORMATS)
def test_images_are_those_of_tensorflow(kind, resize):
    rng = np.random.default_rng(0)
    size = {"height": 5, "width": 3, "resize": resize}
    contents = []
    for height, width in ((4, 6), (5, 3), (9, 2)):
        pixels = tf.constant(rng.integers(0, 256, [height, width, 3], np.uint8))
        encoded = FORMATS[kind](pixels)
        contents.append(encoded if isinstance(encoded, bytes) else encoded.numpy())
    spec = spec_of(photo=size)
    found = features_of(spec, *(record(photo=content) for content in contents))["photo"]
    for content, row in zip(contents, found):
        image = tf.io.decode_image(content, channels=3, expand_animations=False)
        expected = tf.cast(tf.image.resize(image, [5, 3], resize), tf.float32) / 255
        np.testing.assert_allclose(row.reshape(5, 3, 3), expected, atol=1e-6)


@pytest.mark.parametrize("kind, channels", [("jpeg", 1), ("png", 1), ("png", 4), ("bmp", 4)])
def test_channels_are_converted(kind, channels):
    pixels = tf.constant(np.random.default_rng(0).integers(0, 256, [2, 2, 3], np.uint8))
    encoded = FORMATS[kind](pixels)
    content = encoded if isinstance(encoded, bytes) else encoded.numpy()
    found = features_of(spec_of(photo={"channels": channels}), record(photo=content))["photo"]
    expected = tf.io.decode_image(content, channels=channels)
    np.testing.assert_allclose(found.reshape(2, 2, channels) * 255, expected, atol=1e-4)


# --- The reference reading ------------------------------------------------------------------------


# The layers of tf.feature_column call a method that TensorFlow has deprecated.
@pytest.mark.filterwarnings("ignore:`layer.add_variable` is deprecated:UserWarning")
def test_both_readings_agree():
    document = copy.deepcopy(DOCUMENT)
    document["features"]["pixels"].update(default="zeros")
    document["columns"]["pixels"]["normalizer"] = "log1p"
    document["features"]["pair"] = {
        "dtype": "string",
        "decode": {"raw": {"dtype": "float16", "shape": [2], "little_endian": False}},
    }
    document["columns"]["pair"] = {"numeric": "pair"}
    document["columns"]["cut"] = {"bucketized": "pair", "boundaries": [-1.0, 0.5]}
    document["groups"]["deep"] += ["pair", "cut"]
    spec = feature_specs.parse(document)
    rng = np.random.default_rng(0)
    records = [
        record(
            pixels=rng.integers(0, 256, 6, np.uint8).tobytes() if i % 3 else None,
            pair=rng.normal(0, 1, 2).astype(">f2").tobytes(),
        )
        for i in range(7)
    ]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        entries = ek.make_parse_example_spec(spec)
        assert entries["pair"] == tf.io.FixedLenFeature((), tf.string)
        parsed = ek.decode_features(spec, tf.io.parse_example(tf.constant(records), entries))
        assert parsed["photo"].shape.as_list()[1:] == [2, 2, 3]
        with tf.compat.v1.variable_scope(DNN_SCOPE):
            layer = tf.compat.v1.keras.layers.DenseFeatures(ek.feature_columns(spec, "deep"))
            reference = layer(parsed)
        features = Transform(spec).features(tf.constant(records))
        ours = input_layer.dense_input(spec, "deep", features)
        assert ours.shape.as_list()[1] == 6 + 12 + 2 + 6
        reference, ours = session.run((reference, ours))
    np.testing.assert_allclose(ours, reference, rtol=1e-6, atol=1e-6)


def test_the_reference_reading_does_not_take_twice_as_many_bytes_for_twice_as_many_rows():
    spec = spec_of()
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected 6 bytes"):
        ek.decode_features(spec, {"pixels": tf.constant([bytes(12)])})


# --- What does not fit ----------------------------------------------------------------------------

JPEG = tf.io.encode_jpeg(tf.constant(SQUARE, tf.uint8)).numpy()


BAD = [
    ({"pixels": bytes(5)}, "feature 'pixels' has 5 bytes, expected 6: 2 x 3 of uint8"),
    ({"pixels": bytes(12)}, "feature 'pixels' has 12 bytes, expected 6: 2 x 3 of uint8"),
    ({"pixels": b""}, "feature 'pixels' is empty; say default: zeros in the spec if that means "
                      "missing"),
    ({"pixels": None}, "feature 'pixels' is missing, and it has no default in the spec; give "
                       "it one if records may lack it"),
    ({"pixels": [1, 2]}, "feature 'pixels' is int64, expected string"),
    ({"pixels": [bytes(6), bytes(6)]}, "feature 'pixels' has 2 values, expected 1"),
    ({"photo": b""}, "feature 'photo' is empty; say default: zeros in the spec if that means "
                     "missing"),
    ({"photo": b"<html><body>"},
     "feature 'photo' is not a JPEG, PNG, GIF or BMP image: it begins with b'<html><b' and has "
     "12 bytes"),
    ({"photo": png(SQUARE)[:-30]},
     "feature 'photo' is a PNG image that cannot be decoded: its 46 bytes are cut off or "
     "damaged"),
    ({"photo": JPEG[:100]},
     "feature 'photo' is a JPEG image that cannot be decoded: its 100 bytes are cut off or "
     "damaged"),
    ({"photo": gif(2)}, "feature 'photo' is a GIF of 2 frames, expected one image; store one "
                        "frame"),
]  # fmt: skip


def test_each_record_is_named(tmp_path):
    """In a run, and in the check that --mode=check_data and skip_record use."""
    path = f"{tmp_path}/a.tfrecord"
    rows = [GOOD, GOOD]
    for change, _ in BAD:
        rows += [{**GOOD, **change}, GOOD]
    writing.write_examples(path, rows)
    spec = spec_of()
    assert diagnosis.find_bad_record(spec, [path]) == f"{path}: {place(path, 2)}: {BAD[0][1]}"
    (report,) = data_scan.scan([path], spec=spec)
    assert [bad.reason for bad in report.listed] == [message for _, message in BAD]
    assert report.left_out == set(range(2, len(rows), 2))


@pytest.mark.parametrize(
    ("photo", "content", "message"),
    [
        ({"channels": 4}, JPEG,
         "is a JPEG image, which gives 1 or 3 channels, but the spec says 4"),
        ({"channels": 1}, gif(1), "is a GIF image, which gives 3 channels, but the spec says 1"),
        ({"channels": 1}, bmp(np.array(SQUARE, np.uint8)),
         "is a BMP image, which gives 3 or 4 channels, but the spec says 1"),
    ],
)  # fmt: skip
def test_channels_that_a_format_does_not_give(photo, content, message):
    spec, bad = spec_of(photo=photo), record(photo=content)
    with pytest.raises(tf.errors.InvalidArgumentError):
        Transform(spec).features(tf.constant([bad]))
    assert diagnosis.explain(spec, bad) == f"feature 'photo' {message}"


def test_numbers_that_are_not_finite():
    spec = spec_of(pixels={"dtype": "float64", "shape": [2, 3]})
    for value, shown in ((np.nan, "nan"), (1e300, "1e+300")):
        bad = record(pixels=np.array([0, 1, value, 3, value, 5], "<f8").tobytes())
        with pytest.raises(tf.errors.InvalidArgumentError, match="NaN or infinity in one of the c"):
            Transform(spec).features(tf.constant([bad]))
        assert diagnosis.explain(spec, bad) == (
            f"feature 'pixels' has {shown} at [2], expected finite float32 numbers"
        )


def test_the_graph_names_the_feature_as_well():
    """A request has no file in which a diagnosis could look."""
    transform = Transform(spec_of())
    for change, message in (
        ({"pixels": bytes(5)}, "feature 'pixels' must have 6 bytes"),
        ({"photo": b"<html>"}, "feature 'photo' must be a JPEG, PNG, GIF or BMP image"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            transform.features(tf.constant([record(), record(**change)]))
        assert f"estimator_kit input check: {message}" in str(error.value)


def test_rows_are_validated_and_counted(tmp_path):
    path = f"{tmp_path}/a.tfrecord"
    document = copy.deepcopy(DOCUMENT)
    document["features"]["photo"] = {**PHOTO, "default": "zeros"}
    spec = feature_specs.parse(document)
    rows = [{**GOOD, "y": i % 2, "photo": b"" if i else GOOD["photo"]} for i in range(4)]
    writing.write_examples(path, [*rows, {**GOOD, "pixels": b"a"}])
    report = spec_check.check(spec, [path], rows=100)
    assert report.lines == (
        "5 records, 4 of them fit the spec", "  the lines below count only the 4 records that fit",
        "  feature pixels: missing in 0.0%", "  feature photo: missing in 75.0%",
        "  label y: 0 in 50.0%, 1 in 50.0%",
    )  # fmt: skip
    assert report.warnings == ("feature 'photo' is missing in 75.0% of the records",)
    assert report.errors == (
        f"{path}: record 4: feature 'pixels' has 1 bytes, expected 6: 2 x 3 of uint8",
    )


# --- The spec -------------------------------------------------------------------------------------

EITHER = "{raw: {dtype, shape}} or {image: {height, width, channels}}"


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"features__pixels": {"dtype": "string", "decode": "raw"}},
         f"features.pixels.decode: got 'raw', expected {EITHER}"),
        ({"features__pixels": {"dtype": "string", "decode": {"png": {}}}},
         f"features.pixels.decode: got {{'png': {{}}}}, expected {EITHER}"),
        ({"features__pixels": {"dtype": "string", "decode": {"raw": {"dtype": "uint32"}}}},
         "features.pixels.decode.raw.dtype: got 'uint32', expected 'uint8', 'int8', 'uint16', "
         "'int16', 'int32', 'int64', 'float16', 'float32' or 'float64'. Did you mean 'int32'?"),
        ({"features__pixels": {"dtype": "string",
                               "decode": {"raw": {"dtype": "uint8", "shape": "variable"}}}},
         "features.pixels.decode.raw.shape: got 'variable', expected a list"),
        ({"features__photo": {"dtype": "string", "decode": {
            "image": {"height": 0, "width": 2, "channels": 2, "resize": "lanczos"}}}},
         ["features.photo.decode.image.height: got 0, expected greater than or equal to 1",
          "features.photo.decode.image.channels: got 2, expected 1, 3 or 4",
          "features.photo.decode.image.resize: got 'lanczos', expected 'bilinear', 'nearest', "
          "'area' or 'bicubic'"]),
        ({"features__photo": {"dtype": "string", "decode": {"image": {"height": 1, "width": 2}}}},
         "features.photo.decode.image.channels: is missing"),
        ({"features__pixels": {**PIXELS, "dtype": "float32"}},
         "features.pixels: decode needs one string of bytes, got float32 with the shape (). Set "
         "dtype: string and remove shape. Describe the contents of the bytes under decode."),
        ({"features__pixels": {**PIXELS, "shape": "variable"}},
         "features.pixels: decode needs one string of bytes, got string with the shape variable. "
         "Set dtype: string and remove shape. Describe the contents of the bytes under decode."),
        ({"features__pixels": {**PIXELS, "feature_list": True}},
         "features.pixels: decode needs one string of bytes, got string with feature_list: true. "
         "Set dtype: string and remove shape. Describe the contents of the bytes under decode."),
        ({"features__pixels": {**PIXELS, "default": ""}},
         "features.pixels: with decode the default must be zeros or left out, got ''"),
        ({"columns__pixels": {"hash_bucket": "pixels", "size": 9}},
         "columns.pixels.hash_bucket: feature 'pixels' is decoded to numbers, which only numeric "
         "and bucketized columns read. Remove decode to read the bytes themselves."),
        ({"columns__x": {"crossed": ["pixels", "photo"], "size": 9}, "groups__wide": ["x"]},
         [f"columns.x.crossed[{i}]: column {name!r} is numeric, expected a feature or a "
          "categorical column. To cross a number, cross a bucketized column."
          for i, name in enumerate(("pixels", "photo"))]),
        ({"columns__x": {"bucketized": "pixels", "boundaries": [1.0]}, "groups__deep": ["x"]},
         "columns.x.bucketized: feature 'pixels' must hold one number or a fixed number of "
         "numbers, [n]"),
        ({"labels__y": {"dtype": "int64", "weight": "pixels"}},
         "labels.y.weight: 'pixels' must be a single number"),
        ({"objectives__y": {"head": "binary", "metrics": ["mrr"], "group_by": "photo"}},
         "objectives.y.group_by: feature 'photo' is decoded from bytes, expected one string or "
         "int64"),
        ({"drift__features": {"photo": {"l_infinity": {"warn": 0.1}}}},
         "drift.features.photo: 'photo' is decoded from bytes. Drift only measures how often they "
         "are missing. Set only missing."),
    ],
)  # fmt: skip
def test_what_a_broken_spec_is_told(changes, message):
    expected = [message] if isinstance(message, str) else message
    assert problems_of({**DOCUMENT, "drift": {}}, **changes) == expected


def test_a_cross_of_the_feature_itself():
    changed = {"columns__shot": {"numeric": "photo"}, "groups__deep": ["pixels", "shot"]}
    document = copy.deepcopy(DOCUMENT)
    del document["columns"]["photo"]
    crossed = {"columns__x": {"crossed": ["photo", "photo2"], "size": 9}, "groups__wide": ["x"]}
    document["features"]["photo2"] = {"dtype": "string"}
    assert problems_of(document, **changed, **crossed) == [
        "columns.x.crossed[0]: feature 'photo' is decoded to numbers, which cannot be crossed. "
        "Cross a bucketized column of it instead."
    ]


def test_the_spec_survives_its_own_document():
    spec = spec_of(photo={"scale": False})
    document = spec.to_dict()
    assert document["features"]["photo"] == {
        "dtype": "string",
        "decode": {"image": {"height": 2, "width": 2, "channels": 3, "scale": False}},
    }
    again = feature_specs.parse(document)
    assert again == spec and again.fingerprint() == spec.fingerprint()
    assert again.fingerprint() != spec_of().fingerprint()

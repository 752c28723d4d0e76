"""A program with only the client's package and its requirements.

    python -I -S ask_alone.py <package's folder> <requirements' folder> <spec.json> <gRPC> <REST>

Prints JSON with the answers of both clients for two rows, the imported modules, and the error for
YAML.
"""

import json
import sys

sys.path += sys.argv[1:3]
spec, address, url = sys.argv[3:]

import estimator_kit_client as client  # noqa: E402

rows = client.Rows.of_export(spec)
# No row has all features, and one feature is a list.
given = [{"city": "rome", "price": 1.5, "tags": ["a", "b"]}, {"city": "oslo", "price": 4}]
answers = []
for kind, where in ((client.GrpcClient, address), (client.RestClient, url)):
    with kind(where, "ads", rows=rows, timeout_secs=60) as made:
        answers.append(made.predict(given)["value"].tolist())
try:
    client.Rows.of_export("spec.yaml")
except ImportError as error:
    said = str(error)
others = ("tensorflow", "estimator_kit", "feature_specs", "input_pipelines", "pydantic", "yaml")
found = [name for name in sys.modules if name.partition(".")[0] in others]
print(json.dumps({"answers": answers, "said": said, "found": found, "file": client.__file__}))

"""Judges the interface of a run by what others have made: a validator of OpenAPI documents, a generator of clients,
and pyarrow. Arguments: the address of the run, a token that may give commands, and a directory to work in."""

import io
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request

import openapi_spec_validator
import pyarrow.ipc

address, token, directory = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])


def ask(path, accept="application/json"):
    headers = {"Authorization": f"Bearer {token}", "Accept": accept}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/v1/{path}", headers=headers)) as answer:
        return answer.headers["Content-Type"], answer.read()


def patiently(attempt):
    """What an attempt gives in the end, on a machine that does much else."""
    begin = time.monotonic()
    while True:
        try:
            result = attempt()
        except urllib.error.HTTPError:
            result = None
        if result:
            return result
        assert time.monotonic() < begin + 60, attempt
        time.sleep(0.05)


description = ask("openapi.json")[1]
openapi_spec_validator.validate(json.loads(description))
(directory / "openapi.json").write_bytes(description)
generate = ["generate", "--path", directory / "openapi.json", "--meta", "none", "--output-path", directory / "gannet"]
generated = subprocess.run(
    [sys.executable, "-m", "openapi_python_client", *generate],
    check=True,
    capture_output=True,
    text=True,
    # The generator calls ruff, which lies beside it.
    env={**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"},
)
assert "warning" not in (generated.stdout + generated.stderr).lower().replace("text/event-stream", ""), generated

sys.path.insert(0, str(directory))
from gannet import AuthenticatedClient  # noqa: E402
from gannet.api.default import get_faults, get_ledger, get_snapshot, get_state, get_streams, post_faults  # noqa: E402
from gannet.models import FaultWanted, Problem  # noqa: E402

client = AuthenticatedClient(base_url=address, token=token)
patiently(lambda: get_state.sync(client=client).state == "running")
streams = get_streams.sync(client=client)
assert [stream.name for stream in streams] == [stream.name for stream in get_snapshot.sync(client=client).streams]
assert len(streams) == 4, streams
assert get_ledger.sync(client=client, stage="frames")[0].stage == "frames"
nothing = get_streams.sync(client=client, stream="no-such")
assert isinstance(nothing, Problem) and nothing.code == "unknown-stream" and "the nearest is" in nothing.detail, nothing
fault = post_faults.sync(client=client, body=FaultWanted(fault="duplicate", seconds=0.2), idempotency_key="judge")
assert fault.fault == "duplicate" and fault.number == 1, fault
again = post_faults.sync(client=client, body=FaultWanted(fault="duplicate", seconds=0.2), idempotency_key="judge")
assert again == fault and len(get_faults.sync(client=client).injections) == 1, again

ARROW = "application/vnd.apache.arrow.stream"


def table(path):
    kind, body = ask(path, ARROW)
    assert kind == ARROW, kind
    return pyarrow.ipc.open_stream(io.BytesIO(body)).read_all()


def known(table):
    return {key.decode(): value.decode() for key, value in table.schema.metadata.items()}


channel = json.loads(ask("channels")[1])[0]["channels"][5]["channel"]
latest = patiently(lambda: json.loads(ask(f"waveform?channel={channel}&frames=4&columns=64")[1]))
window = f"waveform?channel={channel}&frames=4&columns=64&end={latest['end']}"
samples, plain = table(window), json.loads(ask(window)[1])
assert samples["least"].to_pylist() == plain["least"] and samples["greatest"].to_pylist() == plain["greatest"]
ticks = samples["tick"].to_pylist()
assert ticks[0] == plain["begin"] and ticks == sorted(set(ticks)) and ticks[-1] < plain["end"]
assert int(known(samples)["channel"]) == channel and int(known(samples)["end"]) == plain["end"]

patiently(lambda: json.loads(ask("primitives?last=100")[1])["primitives"]["time"])
found = patiently(lambda: table("primitives?last=1000"))
first, last = found["time"][0].as_py(), found["time"][-1].as_py()
plain = json.loads(ask(f"primitives?last=20000&from={first}&to={last + 1}")[1])
same = table(f"primitives?last=20000&from={first}&to={last + 1}")
for name in ("channel", "length", "charge"):
    assert same[name].to_pylist() == plain["primitives"][name], name
assert same["time"].to_pylist() == [time + first for time in plain["primitives"]["time"]]
assert int(known(same)["ticks_per_s"]) == plain["ticks_per_s"]

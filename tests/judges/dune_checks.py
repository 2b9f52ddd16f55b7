"""Judges raw files of trigger records by the rules that DUNE's own integration tests hold files to.

Usage: dune_checks.py FILE TEST_RUN [TYPE=COUNT...]
FILE is a DUNE raw file, TEST_RUN true or false as run_was_for_test_purposes has to be. A TYPE=COUNT,
such as WIBEth=2, is how many fragments of that type each record has to have, all without error bits.
Fragments of primitives and of activities may be empty. What they hold has to start in their window,
in the order of time, and to come from the trigger as a source and the DAQ as a detector.
Exit status 0 when all rules hold; 1 with one line per broken rule otherwise.
Needs h5py, and nothing of Gannet. Source of the rules: DUNE-DAQ/integrationtest,
src/integrationtest/data_file_checks.py, functions check_file_attributes, sanity_check,
check_fragment_count, check_fragment_sizes and check_fragment_error_flags, and get_TC_types and
get_trigger_type_string of data_file_check_utilities.py; the sizes that are allowed, DUNE-DAQ/
daqsystemtest, integtest/3ru_3df_multirun_test.py; layouts from DUNE-DAQ/daqdataformats and
trgdataformats. DUNE's functions find fragments by the maps of the record, and so does this.
"""

import json
import os
import re
import sys
from datetime import datetime, timezone

import h5py

ATTRIBUTES = """application_name closing_timestamp creation_timestamp file_index filelayout_params
filelayout_version offline_data_stream operational_environment record_type recorded_size run_number
run_was_for_test_purposes source_id_geo_id_map""".split()
FRAGMENT_TYPES = {"Trigger_Primitive": 6, "Trigger_Activity": 7, "Trigger_Candidate": 8,
                  "WIBEth": 12, "TDEEth": 15}
HEADER_BYTES, TRIGGER_TYPE_AT, ERROR_BITS_AT = 72, 40, 52
WINDOW_AT, TYPE_AT, DETECTOR_AT, SUBSYSTEM_AT = 32, 56, 62, 66
DAQ, TRIGGER = 1, 3
PRIMITIVE_BYTES, CANDIDATE_BYTES, CANDIDATE_TYPE_AT, ACTIVITY_BYTES = 24, 48, 36, 80
TIME_START_AT = 8


def word(content, at, size):
    return int.from_bytes(content[at:at + size], "little")


def check_file_attributes(file, test_run):
    """Thirteen attributes, and a name that agrees with them."""
    name = os.path.basename(file.filename)
    missing = [attribute for attribute in ATTRIBUTES if attribute not in file.attrs]
    if missing:
        yield f"no attributes {missing}"
        return
    if run := re.search(r"_run(\d+)_", name):
        if int(run[1]) != file.attrs["run_number"]:
            yield f"run_number is {file.attrs['run_number']}, the name has {run[1]}"
    if index := re.search(r"_(\d+)_", name):
        if int(index[1]) != file.attrs["file_index"]:
            yield f"file_index is {file.attrs['file_index']}, the name has {index[1]}"
    if time := re.search(r"_(\d+T\d+)", name):
        created = int(file.attrs["creation_timestamp"]) / 1000
        allowed = [datetime.fromtimestamp(created + second, timezone.utc).strftime("%Y%m%dT%H%M%S")
                   for second in (-1, 0, 1)]
        if not any(text in time[1] for text in allowed):
            yield f"creation_timestamp is {allowed[1]}, the name has {time[1]}"
    if file.attrs["run_was_for_test_purposes"] != test_run:
        yield f"run_was_for_test_purposes is {file.attrs['run_was_for_test_purposes']}"


def fragments(record, kind):
    """The bytes of each fragment of a type, as the maps of the record name them."""
    def entries(name):
        return json.loads(record.attrs[name])["map_entries"]

    paths = {(entry["subsys"], entry["id"]): entry["path"]
             for entry in entries("source_id_path_map")}
    sources = [(source["subsys"], source["id"]) for entry in entries("fragment_type_source_id_map")
               if entry["fragment_type"] == FRAGMENT_TYPES[kind] for source in entry["sourceids"]]
    return [record.file[paths[source]][:].tobytes() for source in sources]


def candidate_types(record):
    """The types of the candidates, which have to come from one source."""
    found = fragments(record, "Trigger_Candidate")
    if len(found) != 1:
        return []
    payload, types, at = found[0][HEADER_BYTES:], [], 0
    while at < len(payload):
        types.append(word(payload, at + CANDIDATE_TYPE_AT, 4))
        inputs = word(payload, at + CANDIDATE_BYTES, 8)
        at += CANDIDATE_BYTES + 8 + inputs * ACTIVITY_BYTES
    return types


def sanity_check(record):
    """One header, whose trigger type is one bit, that of one of the candidates."""
    headers = [name for name in record["RawData"] if "TriggerRecordHeader" in name]
    if len(headers) != 1:
        yield f"{len(headers)} headers"
        return
    header = record["RawData"][headers[0]][:].tobytes()
    mask = word(header, TRIGGER_TYPE_AT, 8)
    if mask.bit_count() != 1:
        yield f"trigger_type {mask:#x} is not one bit"
        return
    types = candidate_types(record)
    if mask.bit_length() - 1 not in types and word(header, 48, 2) == 0:
        yield f"trigger type {mask.bit_length() - 1} is none of those of the candidates: {types}"


def starts(kind, payload):
    """When each primitive or activity of a payload starts, and each primitive of an activity."""
    times, inputs, at = [], [], 0
    while at < len(payload):
        times.append(word(payload, at + TIME_START_AT, 8))
        if kind == "Trigger_Primitive":
            at += PRIMITIVE_BYTES
            continue
        count, at = word(payload, at + ACTIVITY_BYTES, 8), at + ACTIVITY_BYTES + 8
        inputs.append([word(payload, at + i * PRIMITIVE_BYTES + TIME_START_AT, 8) for i in range(count)])
        at += count * PRIMITIVE_BYTES
    return times, inputs, at == len(payload)


def check_trigger_objects(record):
    """Primitives and activities lie in their window, in order, under the trigger and the DAQ."""
    for kind in ["Trigger_Primitive", "Trigger_Activity"]:
        for content in fragments(record, kind):
            begin, end = word(content, WINDOW_AT, 8), word(content, WINDOW_AT + 8, 8)
            times, inputs, is_whole = starts(kind, content[HEADER_BYTES:])
            if not is_whole:
                yield f"a {kind} does not end with a whole object"
            if times != sorted(times):
                yield f"a {kind} is not in the order of time"
            if not all(begin <= time < end for time in times):
                yield f"a {kind} holds what starts outside of {begin} to {end}"
            if not all(group and min(group) == time for group, time in zip(inputs, times)):
                yield f"a {kind} starts at another time than its first primitive"
            place = [word(content, at, 2) for at in (SUBSYSTEM_AT, DETECTOR_AT)]
            if [word(content, TYPE_AT, 4), *place] != [FRAGMENT_TYPES[kind], TRIGGER, DAQ]:
                yield f"a {kind} has type {word(content, TYPE_AT, 4)}, subsystem and detector {place}"


def check_fragments(record, expected):
    """As many fragments of each type as expected, none short, none with an error bit."""
    for kind, count in expected.items():
        found = fragments(record, kind)
        if len(found) != count:
            yield f"{len(found)} fragments of type {kind}, expected {count}"
        for content in found:
            may_be_empty = kind in ["Trigger_Primitive", "Trigger_Activity"]
            if len(content) < HEADER_BYTES + (not may_be_empty) or word(content, 8, 8) != len(content):
                yield f"a {kind} has {len(content)} bytes, its header says {word(content, 8, 8)}"
            elif bits := word(content, ERROR_BITS_AT, 4):
                yield f"a {kind} has error bits {bits:#x}"


def main(path, test_run, *counts):
    expected = {kind: int(count) for kind, count in (text.split("=") for text in counts)}
    with h5py.File(path, "r") as file:
        broken = [f"file: {fault}" for fault in check_file_attributes(file, test_run)]
        for name, record in file.items():
            faults = [*sanity_check(record), *check_fragments(record, expected),
                      *check_trigger_objects(record)]
            broken += [f"{name}: {fault}" for fault in faults]
        print(f"{path}: {len(file)} records, {len(broken)} rules broken")
    for fault in broken:
        print(f"WRONG {path}: {fault}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

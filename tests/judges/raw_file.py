"""Judges DUNE raw files with plain h5py: every group, attribute and header of the layout.

Usage: raw_file.py FILE...
Exit status 0 when all files are right; 1 with one line per fault otherwise.
Needs h5py, and nothing of Gannet. Sources: file layout version 5 of DUNE-DAQ/hdf5libs, headers
of DUNE-DAQ/daqdataformats.
"""

import json
import re
import struct
import sys

import h5py
import numpy

SUBSYSTEMS = {1: "Detector_Readout", 2: "HW_Signals_Interface", 3: "Trigger", 4: "TR_Builder"}
FRAGMENT_TYPES = dict(enumerate(
    "Unknown ProtoWIB WIB DAPHNE TDE_AMC FW_Trigger_Primitive Trigger_Primitive Trigger_Activity "
    "Trigger_Candidate Hardware_Signal PACMAN MPD WIBEth DAPHNEStream CRT TDEEth CRTBern "
    "CRTGrenoble DAPHNEEth DAPHNEEthStream".split()))
DAQ = 1
FRAME_BYTES = {"WIBEth": 7200, "TDEEth": 7200, "Trigger_Primitive": 24}

FRAGMENT = struct.Struct("<2I5Q3I2H2HI")
TRIGGER_RECORD = struct.Struct("<2I3Q2IQ2HI2HI")
COMPONENT_REQUEST = struct.Struct("<2I2HI2Q")
TIME_SLICE = struct.Struct("<2IQ2I2HI")

FILE_NUMBERS = {"run_number": numpy.uint32, "filelayout_version": numpy.uint32,
                "file_index": numpy.uint64, "recorded_size": numpy.uint64}
FILE_TEXTS = ["creation_timestamp", "closing_timestamp", "application_name", "filelayout_params",
              "source_id_geo_id_map", "record_type", "operational_environment",
              "offline_data_stream", "run_was_for_test_purposes"]
LAYOUT_KEYS = ["record_name_prefix", "digits_for_record_number", "digits_for_sequence_number",
               "record_header_dataset_name", "raw_data_group_name", "view_group_name",
               "path_param_list"]
PATH_KEYS = ["detector_group_type", "detector_group_name", "element_name_prefix",
             "digits_for_element_number"]
RECORD_TEXTS = ["record_header_source_id", "source_id_path_map", "fragment_type_source_id_map",
                "subdetector_source_id_map"]


class Fault(Exception):
    """Something in the file is not as it has to be."""


def require(holds, place, what):
    if not holds:
        raise Fault(f"{place}: {what}")


def source_name(subsystem, number):
    return f"{SUBSYSTEMS.get(subsystem, 'Unknown')}_0x{number:08x}"


def text(node, name, place):
    """A scalar attribute of variable-length UTF-8 text."""
    require(name in node.attrs, place, f"no attribute {name}")
    attribute = node.attrs.get_id(name)
    kind = h5py.check_string_dtype(attribute.dtype)
    require(kind is not None, place, f"{name} is not a text")
    require(kind.length is None, place, f"{name} has a fixed length")
    require(kind.encoding == "utf-8", place, f"{name} is {kind.encoding}")
    require(attribute.shape == (), place, f"{name} is not a scalar")
    return node.attrs[name]


def number(node, name, dtype, place):
    require(name in node.attrs, place, f"no attribute {name}")
    attribute = node.attrs.get_id(name)
    require(attribute.dtype == dtype, place, f"{name} is {attribute.dtype}, not {dtype.__name__}")
    require(attribute.shape == (), place, f"{name} is not a scalar")
    return int(node.attrs[name])


def entries(node, name, keys, place):
    """The entries of a JSON map, each of which has exactly these keys."""
    parsed = json.loads(text(node, name, place))
    require(list(parsed) == ["map_entries"], place, f"{name} has keys {list(parsed)}")
    for entry in parsed["map_entries"]:
        require(set(entry) == set(keys), place, f"{name} has an entry with keys {list(entry)}")
    return parsed["map_entries"]


def sources(entry):
    return sorted((source["subsys"], source["id"]) for source in entry["sourceids"])


class Judge:
    def __init__(self, path):
        self.path = path
        self.bytes = 0
        self.fragments = 0
        self.records = 0

    def judge(self):
        require(not self.path.endswith(".part"), self.path, "the file was not closed")
        with h5py.File(self.path, "r") as file:
            self.judge_file(file)
            for name in file:
                self.judge_record(name, file[name])
            recorded = int(file.attrs["recorded_size"])
            what = f"recorded_size is {recorded}, the data sets have {self.bytes}"
            require(recorded == self.bytes, self.path, what)

    def judge_file(self, file):
        place = self.path
        for name, dtype in FILE_NUMBERS.items():
            number(file, name, dtype, place)
        texts = {name: text(file, name, place) for name in FILE_TEXTS}
        if "gannet_run_start" in file.attrs:
            json.loads(text(file, "gannet_run_start", place))
        more = file.attrs.keys() - FILE_NUMBERS.keys() - set(FILE_TEXTS) - {"gannet_run_start"}
        require(not more, place, f"attributes {sorted(more)}")
        require(file.attrs["filelayout_version"] == 5, place, "layout version is not 5")
        times = [texts["creation_timestamp"], texts["closing_timestamp"]]
        require(all(re.fullmatch("[0-9]{13}", time) for time in times), place, f"times {times}")
        empty = [name for name, value in texts.items() if value == ""]
        require(not empty, place, f"{empty} are empty, which hides what readers assume")
        require(int(times[0]) <= int(times[1]), place, f"closed before it was made: {times}")
        require(texts["run_was_for_test_purposes"] in ("true", "false"), place,
                "run_was_for_test_purposes is neither true nor false")
        self.run = int(file.attrs["run_number"])
        self.kind = texts["record_type"]
        require(self.kind in ("TriggerRecord", "TimeSlice"), place, f"record_type {self.kind}")
        self.judge_layout(json.loads(texts["filelayout_params"]))
        keys = ["subsys", "id", "geoids"]
        geo_ids = entries(file, "source_id_geo_id_map", keys, place)
        self.geo_ids = {(entry["subsys"], entry["id"]): entry["geoids"] for entry in geo_ids}

    def judge_layout(self, layout):
        place = f"{self.path} filelayout_params"
        require(set(layout) == set(LAYOUT_KEYS), place, f"keys {list(layout)}")
        for params in layout["path_param_list"]:
            require(set(params) == set(PATH_KEYS), place, f"path_param_list keys {list(params)}")
        require(layout["record_name_prefix"] == self.kind, place, "prefix is not record_type")
        require(layout["raw_data_group_name"] == "RawData", place, "raw_data_group_name")
        require(layout["view_group_name"] == "Views", place, "view_group_name")
        require(layout["record_header_dataset_name"] == f"{self.kind}Header", place,
                "record_header_dataset_name")
        sequence = layout["digits_for_sequence_number"]
        require((sequence == 0) == (self.kind == "TimeSlice"), place, f"{sequence} digits")
        self.layout = layout

    def judge_record(self, name, group):
        place = f"{self.path} /{name}"
        record_digits = self.layout["digits_for_record_number"]
        sequence_digits = self.layout["digits_for_sequence_number"]
        pattern = f"{self.kind}([0-9]{{{record_digits},}})"
        if sequence_digits:
            pattern += f"[.]([0-9]{{{sequence_digits},}})"
        match = re.fullmatch(pattern, name)
        require(match, place, f"the name does not match {pattern}")
        self.number, self.sequence = (*(int(part) for part in match.groups()), 0)[:2]
        require(list(group) == ["RawData"], place, f"members {list(group)}")
        require(sorted(group.attrs) == sorted(RECORD_TEXTS), place,
                f"attributes {sorted(group.attrs)}")

        raw_data = group["RawData"]
        headers = [member for member in raw_data if member.endswith(f"_{self.kind}Header")]
        require(len(headers) == 1, place, f"{len(headers)} header data sets")
        found = {"paths": {}, "types": {}, "subdetectors": {}, "fragments": 0, "complete": False}
        requested = self.judge_header(headers[0], raw_data, found)
        for member in raw_data:
            if member != headers[0]:
                self.judge_fragment(member, raw_data, found)
        self.judge_maps(group, found, place)
        if found["complete"]:
            what = f"{requested} components requested, {found['fragments']} fragments"
            require(requested == found["fragments"], place, what)
        self.records += 1

    def read(self, name, raw_data):
        """The bytes of a data set of the one form that is allowed."""
        data, place = raw_data[name], f"{self.path} {raw_data.name}/{name}"
        require(isinstance(data, h5py.Dataset), place, "not a data set")
        require(data.dtype == numpy.int8, place, f"type {data.dtype}")
        require(data.ndim == 2 and data.shape[1] == 1, place, f"shape {data.shape}")
        properties = data.id.get_create_plist()
        require(properties.get_layout() == h5py.h5d.CONTIGUOUS, place, "not contiguous")
        require(properties.get_nfilters() == 0, place, "filtered")
        require(len(data.attrs) == 0, place, "data sets have no attributes")
        content = data[:].tobytes()
        require(len(content) == data.shape[0] == data.id.get_storage_size(), place, "size")
        self.bytes += len(content)
        return content, place

    def judge_header(self, name, raw_data, found):
        content, place = self.read(name, raw_data)
        requested = None
        if self.kind == "TriggerRecord":
            (marker, version, trigger, _, requested, run, errors, _, sequence, last, unused,
             source_version, subsystem, source) = TRIGGER_RECORD.unpack_from(content)
            require((marker, version) == (0x33334444, 4), place, f"{marker:#x} v{version}")
            require(sequence == self.sequence <= last, place, f"sequence {sequence} of {last}")
            require(errors < 4, place, f"error bits {errors:#x}")
            rest = content[TRIGGER_RECORD.size:]
            found["complete"] = errors == 0
            require(len(rest) == requested * COMPONENT_REQUEST.size, place, "request count")
            for request in COMPONENT_REQUEST.iter_unpack(rest):
                good = request[:3] == (2, 0xFFFFFFFF, 2) and request[5] <= request[6]
                require(good, place, f"component request {request}")
        else:
            (marker, version, trigger, run, unused, source_version, subsystem,
             source) = TIME_SLICE.unpack(content)
            require((marker, version) == (0x55556666, 2), place, f"{marker:#x} v{version}")
        require(unused == 0xFFFFFFFF, place, f"padding {unused:#x}")
        require((trigger, run) == (self.number, self.run), place, f"number {trigger}, run {run}")
        require((source_version, subsystem) == (2, 4), place, "source is not a TR_Builder")
        require(name == f"{source_name(subsystem, source)}_{self.kind}Header", place, "name")
        found["header"] = (subsystem, source)
        found["paths"][subsystem, source] = f"{raw_data.name}/{name}"
        return requested

    def judge_fragment(self, name, raw_data, found):
        content, place = self.read(name, raw_data)
        require(len(content) >= FRAGMENT.size, place, f"{len(content)} bytes")
        (marker, version, size, trigger, _, begin, end, run, _, kind, sequence, detector,
         source_version, subsystem, source) = FRAGMENT.unpack_from(content)
        require(marker == 0x11112222, place, f"marker {marker:#x}")
        require(version in (5, 6), place, f"version {version}")
        require(size == len(content), place, f"size {size}, data set {len(content)}")
        require((trigger, sequence) == (self.number, self.sequence), place, "trigger number")
        require(run == self.run, place, f"run {run}")
        require(begin <= end, place, f"window {begin} to {end}")
        require(source_version == 2, place, f"source id version {source_version}")
        kind_name = FRAGMENT_TYPES.get(kind, "Unknown")
        require(name == f"{source_name(subsystem, source)}_{kind_name}", place,
                f"the header says {source_name(subsystem, source)}_{kind_name}")
        self.judge_payload(kind_name, content[FRAGMENT.size:], place)
        if SUBSYSTEMS.get(subsystem) == "Detector_Readout":
            detectors = {bits & 0xFFFF for bits in self.geo_ids.get((subsystem, source), [])}
            require(detectors == {detector}, place, f"detectors {detectors} in the geo id map")
        if SUBSYSTEMS.get(subsystem) == "Trigger":
            require(detector == DAQ, place, f"detector {detector}, not that of the DAQ")
        found["paths"][subsystem, source] = f"{raw_data.name}/{name}"
        found["types"].setdefault(kind, []).append((subsystem, source))
        found["subdetectors"].setdefault(detector, []).append((subsystem, source))
        found["fragments"] += 1
        self.fragments += 1

    def judge_payload(self, kind, payload, place):
        unit = FRAME_BYTES.get(kind, 1)
        require(len(payload) % unit == 0, place, f"{len(payload)} bytes of {unit}-byte items")
        if kind == "Trigger_Primitive":
            words = numpy.frombuffer(payload, "<u8").reshape(-1, 3)
            require((words[:, 0] & 0xFF == 2).all(), place, "primitives are not version 2")
            order = numpy.lexsort((words[:, 0] >> 24 & 0xFFFFFF, words[:, 1]))
            require((order == numpy.arange(len(words))).all(), place, "primitives out of order")

    def judge_maps(self, group, found, place):
        header = json.loads(text(group, "record_header_source_id", place))
        require(set(header) == {"subsys", "id"}, place, f"record_header_source_id {header}")
        require((header["subsys"], header["id"]) == found["header"], place, "header source")
        paths = entries(group, "source_id_path_map", ["subsys", "id", "path"], place)
        stored = {(entry["subsys"], entry["id"]): entry["path"] for entry in paths}
        require(len(stored) == len(paths), place, "a source has two paths")
        require(stored == found["paths"], place, "source_id_path_map")
        for path in stored.values():
            require(path in group.file, place, f"no {path}")
        for name, key, expected in [
            ("fragment_type_source_id_map", "fragment_type", found["types"]),
            ("subdetector_source_id_map", "subdetector", found["subdetectors"]),
        ]:
            map_entries = entries(group, name, [key, "sourceids"], place)
            stored = {entry[key]: sources(entry) for entry in map_entries}
            expected = {number: sorted(ids) for number, ids in expected.items()}
            require(stored == expected, place, f"{name} is {stored}, found {expected}")


def main(paths):
    faults = 0
    for path in paths:
        judge = Judge(path)
        try:
            judge.judge()
            print(f"{path}: right: {judge.records} records, {judge.fragments} fragments, "
                  f"{judge.bytes} bytes")
        except (Fault, OSError, KeyError, ValueError, struct.error) as fault:
            print(f"WRONG {fault!r}" if not isinstance(fault, Fault) else f"WRONG {fault}",
                  file=sys.stderr)
            faults += 1
    return 1 if faults or not paths else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

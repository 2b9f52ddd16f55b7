"""Makes a small DUNE raw file with plain h5py, as a program other than Gannet would.

Usage: make_raw_file.py FILE [RECORDS [LIBVER [PACKED]]]
With LIBVER left out the file has the form that libhdf5 writes by default (superblock 0, symbol
tables), as DUNE's own writer leaves it; "latest" gives the newest form of the same content.
Two WIBEth fragments of one frame each per record; one has a rounded size in its header, as
fragments of real files do. With PACKED, "gzip" or "lzf", fragments lie in chunks that are shuffled, packed
so, and have check sums.
"""

import json
import struct
import sys

import h5py
import numpy

RUN = 27980
BUILDER, READOUT = (4, 0), [(1, 100), (1, 101)]
NAMES = {1: "Detector_Readout", 4: "TR_Builder"}


def source_id(source):
    return struct.pack("<2HI", 2, *source)


def fragment(trigger, source, size):
    header = struct.pack("<2I5Q3I2H", 0x11112222, 5, size, trigger, 1000 * trigger, 10, 20, RUN,
                         0, 12, 0, 3)
    frame = bytes((trigger + source[1] + i) % 256 for i in range(7200))
    return header + source_id(source) + frame


def record_header(trigger):
    requests = b"".join(struct.pack("<2I", 2, 0xFFFFFFFF) + source_id(source)
                        + struct.pack("<2Q", 10, 20) for source in READOUT)
    fixed = struct.pack("<2I3Q2IQ2HI", 0x33334444, 4, trigger, 1000 * trigger, len(READOUT), RUN,
                        0, 8, 0, 0, 0xFFFFFFFF)
    return fixed + source_id(BUILDER) + requests


def source(pair):
    return {"subsys": pair[0], "id": pair[1]}


def write_record(file, trigger, packed):
    group = file.create_group(f"TriggerRecord{trigger:05}.0000")
    raw_data = group.create_group("RawData")
    paths = {}

    def write(pair, kind, content):
        name = f"{NAMES[pair[0]]}_0x{pair[1]:08x}_{kind}"
        rows = numpy.frombuffer(content, "i1").reshape(-1, 1)
        packing = {"chunks": (1000, 1), "compression": packed, "shuffle": True, "fletcher32": True}
        is_packed = packed and kind == "WIBEth"
        data_set = raw_data.create_dataset(name, data=rows, **(packing if is_packed else {}))
        paths[pair] = data_set.name
        return len(content)

    size = write(BUILDER, "TriggerRecordHeader", record_header(trigger))
    for pair, claimed in zip(READOUT, (72 + 7200, 7000)):
        size += write(pair, "WIBEth", fragment(trigger, pair, claimed))
    maps = {
        "source_id_path_map": [{**source(pair), "path": path} for pair, path in paths.items()],
        "fragment_type_source_id_map": [
            {"fragment_type": 12, "sourceids": [source(pair) for pair in READOUT]}],
        "subdetector_source_id_map": [
            {"subdetector": 3, "sourceids": [source(pair) for pair in READOUT]}],
    }
    group.attrs["record_header_source_id"] = json.dumps(source(BUILDER))
    for name, map_entries in maps.items():
        group.attrs[name] = json.dumps({"map_entries": map_entries})
    return size


def main(path, records="2", libver=None, packed=None):
    layout = {"record_name_prefix": "TriggerRecord", "digits_for_record_number": 5,
              "digits_for_sequence_number": 4, "record_header_dataset_name": "TriggerRecordHeader",
              "raw_data_group_name": "RawData", "view_group_name": "Views", "path_param_list": []}
    geo_ids = [{**source(pair), "geoids": [3 | 1 << 16 | (pair[1] - 100) << 48]}
               for pair in READOUT]
    with h5py.File(path, "w", libver=libver) as file:
        file.attrs["run_number"] = numpy.uint32(RUN)
        file.attrs["file_index"] = numpy.uint64(0)
        file.attrs["creation_timestamp"] = "1720714015000"
        file.attrs["application_name"] = "make_raw_file"
        file.attrs["filelayout_params"] = json.dumps(layout)
        file.attrs["filelayout_version"] = numpy.uint32(5)
        file.attrs["source_id_geo_id_map"] = json.dumps({"map_entries": geo_ids})
        file.attrs["record_type"] = "TriggerRecord"
        file.attrs["operational_environment"] = "np04hd"
        file.attrs["offline_data_stream"] = "cosmics"
        file.attrs["run_was_for_test_purposes"] = "true"
        size = sum(write_record(file, trigger, packed) for trigger in range(1, int(records) + 1))
        file.attrs["recorded_size"] = numpy.uint64(size)
        # Newer writers store the times as numbers.
        file.attrs["closing_timestamp"] = numpy.uint64(1720714016000)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Makes a DUNE raw file of trigger records with plain h5py, as different from ours as its layout
allows, and tells which frames are in it.

Usage: make_foreign_records.py FILE FRAMES
FRAMES becomes the WIBEth and TDEEth frames of all records back to back, each once, in the order of
their time stamps (frames of one time by source).

Three records whose windows overlap, of two WIBEth streams, one TDEEth stream and trigger
primitives. What a reader may meet elsewhere: another application, other digits in names, fragments
written in another order than their sources, fragment headers of version 5 and 6, sizes in headers
that are rounded, attributes and groups that nobody knows, times as numbers, data sets of unsigned
bytes, of one or two dimensions, contiguous or in chunks.

Needs h5py, and nothing of Gannet. Sources: file layout version 5 of DUNE-DAQ/hdf5libs, headers of
DUNE-DAQ/daqdataformats, frames of DUNE-DAQ/detdataformats.
"""

import json
import struct
import sys

import h5py
import numpy

RUN = 39042
BUILDER, PRIMITIVES = (4, 7), (3, 11)
START = 109_000_000_000_000_000
WIBETH, TDEETH, TRIGGER_PRIMITIVE = 12, 15, 6
# Source: fragment type, its name, detector, crate, slot, stream, ticks per frame.
STREAMS = {
    (1, 203): (TDEETH, "TDEEth", 11, 4, 2, 0, 2000),
    (1, 201): (WIBETH, "WIBEth", 10, 5, 1, 64, 2048),
    (1, 202): (WIBETH, "WIBEth", 10, 5, 1, 65, 2048),
}
NAMES = {1: "Detector_Readout", 3: "Trigger", 4: "TR_Builder"}
# First tick and tick after the window of each record, from START on.
WINDOWS = {17: (0, 20_000), 18: (15_000, 30_000), 25: (900_000, 915_000)}


def source_id(source):
    return struct.pack("<2HI", 2, *source)


def frame(source, number):
    """Frame `number` of a stream; no two frames have the same bytes."""
    _, _, detector, crate, slot, stream, step = STREAMS[source]
    word = (detector << 6 | crate << 12 | slot << 22 | stream << 26
            | (number % 4096) << 40 | 899 << 52)
    timestamp = START + number * step
    adc = (numpy.arange(896, dtype="<u8") * 0x9E3779B97F4A7C15 + numpy.uint64(number * 1000003)
           + numpy.uint64(source[1]))
    own = struct.pack("<2Q", (timestamp & 0x7FFF) * 0x10001 | 5 << 52, number)
    return timestamp, struct.pack("<2Q", word, timestamp) + own + adc.tobytes()


def frames(source, window):
    """The whole frames of a stream that a window touches."""
    step = STREAMS[source][-1]
    begin, end = window
    numbers = range(-(-(begin - step + 1) // step), -(-end // step))
    return [frame(source, number) for number in numbers if number >= 0]


def fragment(trigger, source, kind, detector, payload):
    version = 6 if source[1] % 2 else 5
    size = 72 + len(payload)
    if source == (1, 202):
        size = size // 1000 * 1000
    begin, end = (START + tick for tick in WINDOWS[trigger])
    header = struct.pack("<2I5Q3I2H", 0x11112222, version, size, trigger, begin + 4000, begin, end,
                         RUN, 0, kind, 0, detector)
    return header + source_id(source) + payload


def primitives(trigger):
    begin = START + WINDOWS[trigger][0]
    return b"".join(struct.pack("<3Q", 2 | 10 << 16 | channel << 24 | 9 << 48, begin + channel, 4)
                    for channel in range(5))


def record_header(trigger):
    begin, end = (START + tick for tick in WINDOWS[trigger])
    requests = b"".join(struct.pack("<2I", 2, 0xFFFFFFFF) + source_id(source)
                        + struct.pack("<2Q", begin, end) for source in STREAMS)
    fixed = struct.pack("<2I3Q2IQ2HI", 0x33334444, 4, trigger, begin + 4000, len(STREAMS), RUN, 0,
                        1 << 7, 0, 0, 0xFFFFFFFF)
    return fixed + source_id(BUILDER) + requests


def entry(source, **more):
    return {"id": source[1], "subsys": source[0], **more}


def storage(index, rows):
    """Every way to store a row of bytes that h5py has without a filter."""
    return [
        {"data": rows},
        {"data": rows, "chunks": (100, 1)},
        {"data": rows.view("u1")},
        {"data": rows.reshape(-1)},
    ][index % 4]


def write_record(file, trigger):
    group = file.create_group(f"TriggerRecord{trigger:08}.0000")
    raw_data = group.create_group("RawData")
    group.create_group("Views")
    contents = {source: fragment(trigger, source, stream[0], stream[2],
                                 b"".join(data for _, data in frames(source, WINDOWS[trigger])))
                for source, stream in STREAMS.items()}
    contents[PRIMITIVES] = fragment(trigger, PRIMITIVES, TRIGGER_PRIMITIVE, 10,
                                    primitives(trigger))
    contents[BUILDER] = record_header(trigger)
    kinds = {source: stream[1] for source, stream in STREAMS.items()}
    kinds |= {PRIMITIVES: "Trigger_Primitive", BUILDER: "TriggerRecordHeader"}
    paths = []
    for index, (source, content) in enumerate(contents.items()):
        name = f"{NAMES[source[0]]}_0x{source[1]:08x}_{kinds[source]}"
        rows = numpy.frombuffer(content, "i1").reshape(-1, 1)
        data_set = raw_data.create_dataset(name, **storage(trigger + index, rows))
        paths.append(entry(source, path=data_set.name))
    types = {}
    detectors = {10: [entry(PRIMITIVES)]}
    for source, (kind, _, detector, *_) in STREAMS.items():
        types.setdefault(kind, []).append(entry(source))
        detectors.setdefault(detector, []).append(entry(source))
    types[TRIGGER_PRIMITIVE] = [entry(PRIMITIVES)]
    maps = {
        "source_id_path_map": paths,
        "fragment_type_source_id_map": [
            {"sourceids": sources, "fragment_type": kind} for kind, sources in types.items()],
        "subdetector_source_id_map": [
            {"sourceids": sources, "subdetector": number} for number, sources in detectors.items()],
    }
    group.attrs["record_header_source_id"] = json.dumps(entry(BUILDER), indent=2)
    for name, map_entries in maps.items():
        group.attrs[name] = json.dumps({"map_entries": map_entries}, indent=2)
    group.attrs["weather"] = numpy.array([1.5, 2.5])
    return sum(map(len, contents.values()))


def write_file(path):
    layout = {"record_name_prefix": "TriggerRecord", "digits_for_record_number": 8,
              "digits_for_sequence_number": 4, "record_header_dataset_name": "TriggerRecordHeader",
              "raw_data_group_name": "RawData", "view_group_name": "Views", "path_param_list": [],
              "a_key_of_the_future": [1, 2]}
    geo_ids = [entry(source, geoids=[s[2] | s[3] << 16 | s[4] << 32 | s[5] << 48])
               for source, s in STREAMS.items()]
    with h5py.File(path, "w") as file:
        # Written last record first: the order in the file is nobody's promise.
        size = sum(write_record(file, trigger) for trigger in sorted(WINDOWS, reverse=True))
        file.create_group("Calibration").attrs["author"] = "somebody else"
        file.attrs.update({
            "run_number": numpy.uint32(RUN), "file_index": numpy.uint64(4),
            "creation_timestamp": "1780000000000", "closing_timestamp": numpy.uint64(1780000009000),
            "application_name": "another-dataflow0", "filelayout_params": json.dumps(layout),
            "filelayout_version": numpy.uint32(5), "record_type": "TriggerRecord",
            "source_id_geo_id_map": json.dumps({"map_entries": geo_ids}),
            "operational_environment": "np02vd", "offline_data_stream": "calibration",
            "run_was_for_test_purposes": "false", "recorded_size": numpy.uint64(size),
            "an_attribute_of_the_future": "unknown"})


def main(path, frames_path):
    write_file(path)
    every = {(timestamp, source): data for source in STREAMS for window in WINDOWS.values()
             for timestamp, data in frames(source, window)}
    with open(frames_path, "wb") as file:
        for key in sorted(every):
            file.write(every[key])


if __name__ == "__main__":
    main(*sys.argv[1:])

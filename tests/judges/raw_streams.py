"""Judges raw streams exported to HDF5: h5py's frames are those of the log, byte for byte.

Usage: raw_streams.py FILE LOG
FILE is a DUNE raw file of time slices with frames, LOG the chunk log that it was made of.
Exit status 0 when they agree; 1 with one line that names the fault otherwise.
Needs h5py, and nothing of Gannet. Sources: file layout version 5 of DUNE-DAQ/hdf5libs, DAQ
Ethernet header of DUNE-DAQ/detdataformats; the chunk format in docs/reference/formats.md.
"""

import json
import struct
import sys

import h5py

CHUNK = struct.Struct("<4s2H2I3Q2IQ2I")
BLOCK, RAW_FRAMES, FRAME, FRAGMENT_HEADER = 4096, 34, 7200, 72


class Fault(Exception):
    """The file does not hold what the log does."""


def geo_id(frame):
    """Where a frame comes from, packed as in source_id_geo_id_map."""
    word = int.from_bytes(frame[:8], "little")
    detector, crate, slot, stream = word >> 6 & 63, word >> 12 & 1023, word >> 22 & 15, word >> 26 & 255
    return detector | crate << 16 | slot << 32 | stream << 48


def frames_of_log(path):
    """The frames of each stream, in the order of the log."""
    streams = {}
    with open(path, "rb") as log:
        while header := log.read(CHUNK.size):
            magic, _, kind, _, length, *_ = CHUNK.unpack(header)
            if magic != b"GnLg":
                raise Fault(f"no chunk at byte {log.tell() - CHUNK.size} of {path}")
            payload = log.read(length)
            log.seek(-(CHUNK.size + length) % BLOCK, 1)
            if kind == RAW_FRAMES:
                streams.setdefault(geo_id(payload), []).append(payload)
    return {stream: b"".join(chunks) for stream, chunks in streams.items()}


def frames_of_file(path):
    """The frames of each stream, in the order of the records' numbers, found as DUNE's readers do."""
    streams = {}
    with h5py.File(path, "r") as file:
        places = {(entry["subsys"], entry["id"]): entry["geoids"]
                  for entry in json.loads(file.attrs["source_id_geo_id_map"])["map_entries"]}
        for name in sorted(file, key=lambda name: int(name.removeprefix("TimeSlice"))):
            record = file[name]
            for entry in json.loads(record.attrs["source_id_path_map"])["map_entries"]:
                source = entry["subsys"], entry["id"]
                if source in places:
                    (stream,) = places[source]
                    content = file[entry["path"]][:].tobytes()
                    streams.setdefault(stream, []).append(content[FRAGMENT_HEADER:])
    return {stream: b"".join(fragments) for stream, fragments in streams.items()}


def main(path, log):
    try:
        found, expected = frames_of_file(path), frames_of_log(log)
        if found.keys() != expected.keys():
            raise Fault(f"streams {sorted(found)}, the log has {sorted(expected)}")
        for stream, frames in found.items():
            if frames != expected[stream]:
                raise Fault(f"the frames of stream {stream:#x} differ")
    except (Fault, OSError, KeyError, ValueError, struct.error) as fault:
        print(f"WRONG {path}: {fault!r}", file=sys.stderr)
        return 1
    total = sum(len(frames) for frames in found.values()) // FRAME
    print(f"{path}: right: {total} frames of {len(found)} streams")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

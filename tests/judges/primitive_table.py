"""Judges a Parquet table of trigger primitives with plain pyarrow: every value of every column.

Usage: primitive_table.py TABLE RAW [PLACES]
RAW holds the same primitives as DUNE stores them, 24 bytes each. PLACES is a JSON object: offline
channel number to [plane, stream]; channels that it lacks, all if it is left out, have no place.
Exit status 0 when the table is right; 1 with one line that names the fault otherwise.
Needs pyarrow and numpy, and nothing of Gannet. Source of the layout: DUNE-DAQ/trgdataformats
TriggerPrimitive.hpp, version 2.
"""

import json
import sys

import numpy
import pyarrow
import pyarrow.parquet

PRIMITIVE = numpy.dtype({
    "names": ["version", "flag", "detid", "channel", "samples_over_threshold", "time_start",
              "samples_to_peak", "adc_integral", "adc_peak"],
    # The channel has 24 bits: the byte above it is cut off below.
    "formats": ["u1", "u1", "u1", "<u4", "<u2", "<u8", "<u2", "<u4", "<u2"],
    "offsets": [0, 1, 2, 3, 6, 8, 16, 18, 22],
    "itemsize": 24,
})
COLUMNS = {
    "version": pyarrow.uint8(), "flag": pyarrow.uint8(), "detid": pyarrow.uint8(),
    "channel": pyarrow.uint32(), "time_start": pyarrow.uint64(),
    "samples_over_threshold": pyarrow.uint16(), "samples_to_peak": pyarrow.uint16(),
    "adc_integral": pyarrow.uint32(), "adc_peak": pyarrow.uint16(),
    "plane": pyarrow.uint8(), "stream": pyarrow.string(),
}
NO_PLACE = [255, ""]
ROWS_PER_GROUP_MAX = 1 << 18


class Fault(Exception):
    """Something in the table is not as it has to be."""


def require(holds, what):
    if not holds:
        raise Fault(what)


def judge(table_path, raw_path, places):
    expected = numpy.fromfile(raw_path, PRIMITIVE)
    file = pyarrow.parquet.ParquetFile(table_path)
    schema = file.schema_arrow
    require(schema.names == list(COLUMNS), f"columns {schema.names}")
    for name, kind in COLUMNS.items():
        field = schema.field(name)
        require(field.type == kind, f"{name} is {field.type}, not {kind}")
        require(not field.nullable, f"{name} may be missing")
        require(f"unit.{name}".encode() in schema.metadata, f"no unit of {name}")
    for key in [b"run", b"file_index", b"application", b"ticks_hz", b"log_chunks_missing"]:
        require(key in schema.metadata, f"no {key.decode()}")
    for index in range(file.num_row_groups):
        rows = file.metadata.row_group(index).num_rows
        require(0 < rows <= ROWS_PER_GROUP_MAX, f"{rows} rows in row group {index}")
    table = file.read()
    require(table.num_rows == len(expected), f"{table.num_rows} rows, not {len(expected)}")
    channels = expected["channel"] & 0xFFFFFF
    values = {name: expected[name] for name in PRIMITIVE.names} | {"channel": channels}
    found = [places.get(str(channel), NO_PLACE) for channel in channels]
    values["plane"] = numpy.array([plane for plane, _ in found])
    values["stream"] = numpy.array([stream for _, stream in found])
    for name in COLUMNS:
        wrong = numpy.flatnonzero(table[name].to_numpy() != values[name])
        require(len(wrong) == 0, f"{name} differs in {len(wrong)} rows, first {wrong[:1]}")
    return table.num_rows


def main(table_path, raw_path, places="{}"):
    try:
        print(f"{table_path}: right: {judge(table_path, raw_path, json.loads(places))} rows")
    except (Fault, OSError, ValueError, pyarrow.ArrowException) as fault:
        print(f"WRONG {table_path}: {fault!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

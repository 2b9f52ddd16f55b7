"""Counts what HDF5 reads to open records of a file by their names.

Usage: record_by_name.py FILE NAME...
Prints one line for each record: reads, bytes, name. Needs h5py, and nothing of Gannet.
"""

import io
import sys

import h5py


class Counting(io.FileIO):
    """A file that counts what is read of it."""

    reads = bytes = 0

    def readinto(self, buffer):
        count = super().readinto(buffer)
        self.reads += 1
        self.bytes += count
        return count


def main(path, *names):
    for name in names:
        with Counting(path, "rb") as counting, h5py.File(counting, "r") as file:
            record = file[name]
            if not record.attrs or not list(record["RawData"]):
                print(f"{name}: nothing in it", file=sys.stderr)
                return 1
            print(counting.reads, counting.bytes, name)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

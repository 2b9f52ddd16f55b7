"""Encodes RoCEv2 packets of unreliable connections, from the layout in the specification.

Each line of standard input is a packet, `key=value` by spaces: source, source_port, destination,
destination_port, identification, flags (of IPv4, 2: do not fragment), opcode, queue_pair, sequence, data (in
hexadecimal) and, where the opcode has them, address, key, length and immediate. Each line of standard
output is the payload of its UDP datagram in hexadecimal.
"""

import socket
import struct
import sys
import zlib

WITH_ADDRESS = {0x26, 0x2A, 0x2B}
WITH_IMMEDIATE = {0x23, 0x25, 0x29, 0x2B}


def encode(fields):
    number = lambda name: int(fields.get(name, "0"), 0)
    opcode, data = number("opcode"), bytes.fromhex(fields.get("data", ""))
    pad = -len(data) % 4
    headers = struct.pack(
        ">BBHII", opcode, pad << 4, 0xFFFF, number("queue_pair"), number("sequence")
    )
    if opcode in WITH_ADDRESS:
        headers += struct.pack(">QII", number("address"), number("key"), number("length"))
    if opcode in WITH_IMMEDIATE:
        headers += struct.pack(">I", number("immediate"))
    packet = headers + data + bytes(pad)

    udp_length = 8 + len(packet) + 4
    ip = struct.pack(
        ">BBHHHBBH4s4s",
        0x45, 0xFF, 20 + udp_length,
        number("identification"), number("flags") << 13,
        0xFF, 17, 0xFFFF,
        socket.inet_aton(fields["source"]), socket.inet_aton(fields["destination"]),
    )
    udp = struct.pack(
        ">HHHH", number("source_port"), number("destination_port"), udp_length, 0xFFFF
    )
    masked = bytearray(packet)
    masked[4] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + ip + udp + bytes(masked))
    return packet + struct.pack("<I", crc)


for line in sys.stdin:
    print(encode(dict(field.split("=", 1) for field in line.split())).hex())

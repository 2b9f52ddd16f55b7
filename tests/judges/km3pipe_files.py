"""Tells what km3pipe reads of captures of CLB packets (.dqd) and of files of DAQ objects (.dat).

Usage: km3pipe_files.py FILE...
One line for each packet, object, frame and hit, with numbers separated by spaces. Rates are in whole
hertz. Needs km3pipe, and nothing of Gannet.
"""

import sys
from io import BytesIO

from km3pipe.io.clb import CLBPump
from km3pipe.io.daq import (DAQEvent, DAQPreamble, DAQSummaryslice, RePump, TimesliceParser)


def say(what, *numbers):
    print(what, *(int(number) for number in numbers))


def capture(name):
    pump = CLBPump(file=name)
    for place in range(len(pump)):
        packet = pump[place]
        info = packet["PacketInfo"][0]
        print("packet", info["data_type"], *(int(info[field]) for field in (
            "run", "udp_sequence", "timestamp", "ns_ticks", "dom_id", "dom_status")))
        for hit in packet["Hits"]:
            say("hit", hit["channel_id"], hit["time"], hit["tot"])


def time_slice(data):
    blob = TimesliceParser().process({"RawBytes": data})
    info, frames, hits = (blob[it] for it in ("TimesliceInfo", "TimesliceFrameInfos", "TSHits"))
    say("slice", info.frame_index[0], info.timestamp[0], info.nanoseconds[0], info.n_frames[0])
    for module, frame in frames.items():
        say("frame", module, frame.det_id[0], frame.run_id[0], frame.sqnr[0], frame.n_hits[0])
        for hit in hits[hits.dom_id == module]:
            say("hit", hit["channel_id"], hit["time"], hit["tot"])


def header(it):
    return it.det_id, it.run, it.time_slice, it.time_stamp, it.ticks, it.wr_status != 0


def summary_slice(content):
    summary = DAQSummaryslice(content)
    say("summary", *header(summary.header), summary.n_summary_frames)
    for module, rates in summary.summary_frames.items():
        say("rates", module, *summary.dom_status[module], *(round(rate) for rate in rates))


def event(content):
    found = DAQEvent(content)
    say("event", *header(found.header), found.trigger_counter, found.trigger_mask, found.overlays)
    for hit in found.triggered_hits:
        say("triggered", *hit)
    for hit in found.snapshot_hits:
        say("snapshot", *hit)


def objects(name):
    pump = RePump(filename=name)
    while True:
        try:
            data = pump.process({})["RawBytes"]
        except StopIteration:
            return
        content = BytesIO(data)
        kind = DAQPreamble(file_obj=content).data_type
        {2001: summary_slice, 10001: event}.get(kind, lambda _: time_slice(data))(content)
        if kind in (2001, 10001) and content.read():
            print("bytes left")


for name in sys.argv[1:]:
    (capture if name.endswith(".dqd") else objects)(name)

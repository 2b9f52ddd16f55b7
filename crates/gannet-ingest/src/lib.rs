//! Packets in and out: UDP and capture files behind Source and Sink.

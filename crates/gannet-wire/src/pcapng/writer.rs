//! Writes a pcapng file block by block.

use super::{
    BYTE_ORDER_MAGIC, FORMAT, INTERFACES_MAX, Interface, MAJOR, block_type, field, options,
};
use crate::capture::{ByteOrder, PACKET_LEN_MAX, Packet, Statistics};
use crate::layout::put;
use crate::{Error, Result};

/// Minor version that is written.
const MINOR: u16 = 0;
/// Section length that says "not known": the section ends with the file.
const SECTION_LEN_UNKNOWN: u64 = u64::MAX;

/// Writes a file by appending to a buffer, which the caller empties into a file.
#[derive(Clone, Debug)]
pub struct Writer {
    order: ByteOrder,
    interfaces: Vec<Interface>,
}

impl Writer {
    /// Starts a file: appends a section header.
    pub fn new(order: ByteOrder, out: &mut Vec<u8>) -> Self {
        append(block_type::SECTION, order, out, |out| {
            out.extend_from_slice(&order.bytes_u32(BYTE_ORDER_MAGIC));
            out.extend_from_slice(&order.bytes_u16(MAJOR));
            out.extend_from_slice(&order.bytes_u16(MINOR));
            out.extend_from_slice(&order.bytes_u64(SECTION_LEN_UNKNOWN));
        });
        Self { order, interfaces: Vec::new() }
    }

    /// Appends the description of an interface and returns the number that packets name it by.
    ///
    /// # Errors
    /// [`Error::Range`] above [`INTERFACES_MAX`] interfaces.
    pub fn interface(&mut self, interface: Interface, out: &mut Vec<u8>) -> Result<u32> {
        let number = self.interfaces.len();
        if number == INTERFACES_MAX {
            let (max, got) = (INTERFACES_MAX as u64, INTERFACES_MAX as u64 + 1);
            let field = "interfaces of a section";
            return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
        }
        append(block_type::INTERFACE, self.order, out, |out| interface.emit(self.order, out));
        self.interfaces.push(interface);
        Ok(number as u32)
    }

    /// Appends a packet. Its link type is that of its interface and is not stored. Without a
    /// timestamp it becomes a simple packet block.
    ///
    /// # Errors
    /// [`Error::Unknown`] for an interface not described before, [`Error::Range`] for a packet
    /// above [`PACKET_LEN_MAX`] bytes, [`Error::Value`] for a packet without a timestamp that a
    /// simple packet block cannot hold: it must be of interface 0, and uncut unless by that
    /// interface's snapshot length. Nothing is appended then.
    pub fn packet(&self, packet: &Packet<'_>, out: &mut Vec<u8>) -> Result<()> {
        let interface = self.described(packet.interface)?;
        let len = packet.data.len();
        if len > PACKET_LEN_MAX {
            let (field, max, got) = ("captured length", PACKET_LEN_MAX as u64, len as u64);
            return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
        }
        let Some(timestamp_ns) = packet.timestamp_ns else {
            return self.simple_packet(packet, interface, out);
        };
        append(block_type::ENHANCED_PACKET, self.order, out, |out| {
            self.timed(packet.interface, interface.units(timestamp_ns), out);
            out.extend_from_slice(&self.order.bytes_u32(len as u32));
            out.extend_from_slice(&self.order.bytes_u32(packet.original_len));
            out.extend_from_slice(packet.data);
        });
        Ok(())
    }

    /// Appends what was counted on an interface.
    ///
    /// # Errors
    /// [`Error::Unknown`] for an interface not described before.
    pub fn statistics(&self, statistics: &Statistics, out: &mut Vec<u8>) -> Result<()> {
        let units = self.described(statistics.interface)?.units(statistics.timestamp_ns);
        append(block_type::STATISTICS, self.order, out, |out| {
            self.timed(statistics.interface, units, out);
            for (code, counter) in [
                (options::code::RECEIVED, statistics.received),
                (options::code::DROPPED_BY_INTERFACE, statistics.dropped_by_interface),
                (options::code::DROPPED_BY_SYSTEM, statistics.dropped_by_system),
            ] {
                if let Some(counter) = counter {
                    options::emit(code, &self.order.bytes_u64(counter), self.order, out);
                }
            }
            options::emit_end(out);
        });
        Ok(())
    }

    fn simple_packet(
        &self,
        packet: &Packet<'_>,
        interface: &Interface,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let value = |field, expected: u64, got: u64| {
            Err(Error::Value { format: FORMAT, field, expected, got })
        };
        if packet.interface != 0 {
            return value("interface of a simple packet", 0, packet.interface.into());
        }
        let expected = match interface.snap_len {
            0 => packet.original_len,
            snap_len => packet.original_len.min(snap_len),
        };
        if packet.data.len() != expected as usize {
            let got = packet.data.len() as u64;
            return value("captured length of a simple packet", expected.into(), got);
        }
        append(block_type::SIMPLE_PACKET, self.order, out, |out| {
            out.extend_from_slice(&self.order.bytes_u32(packet.original_len));
            out.extend_from_slice(packet.data);
        });
        Ok(())
    }

    fn described(&self, number: u32) -> Result<&Interface> {
        let (field, got) = ("interface of a packet", number.into());
        self.interfaces.get(number as usize).ok_or(Error::Unknown { format: FORMAT, field, got })
    }

    fn timed(&self, interface: u32, units: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.order.bytes_u32(interface));
        out.extend_from_slice(&self.order.bytes_u32((units >> 32) as u32));
        out.extend_from_slice(&self.order.bytes_u32(units as u32));
    }
}

/// Appends a block: type, length, what `body` appends, padding, length.
fn append(kind: u32, order: ByteOrder, out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&order.bytes_u32(kind));
    out.extend_from_slice(&[0; 4]);
    body(out);
    let padded = (out.len() - start).next_multiple_of(4);
    out.resize(start + padded, 0);
    let total_len = order.bytes_u32((padded + 4) as u32);
    put(out, start + field::TOTAL_LEN, total_len);
    out.extend_from_slice(&total_len);
}

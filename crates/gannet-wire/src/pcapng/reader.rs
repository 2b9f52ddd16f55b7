//! Finds packets and statistics in slices of a pcapng file.

use super::options::{self, Options};
use super::{BYTE_ORDER_MAGIC, FORMAT, INTERFACES_MAX, Interface, MAJOR, block_type, field};
use crate::capture::{
    ByteOrder, Event, PACKET_LEN_MAX, Packet, Progress, RECORD_LEN_MAX, Statistics,
};
use crate::layout::{array, check_len};
use crate::{Error, Result};

/// Finds the packets of a file in slices of it; see [`capture`](crate::capture) for how.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    /// Of the section, once there is one.
    order: Option<ByteOrder>,
    interfaces: Vec<Interface>,
    /// Bytes left of a block that is skipped.
    skip: u64,
    blocks_skipped: u64,
    position: u64,
    needed: usize,
}

/// What lies at the front of the input.
enum Front<'a> {
    /// Less than one block, which needs this many bytes.
    Cut(usize),
    /// A block of a type that is not read, of this length.
    Other(u64),
    /// A whole block.
    Block(&'a [u8]),
}

impl Reader {
    /// Reader at the start of a file.
    pub const fn new() -> Self {
        Self {
            order: None,
            interfaces: Vec::new(),
            skip: 0,
            blocks_skipped: 0,
            position: 0,
            needed: field::BLOCK_LEN_MIN,
        }
    }

    /// Interfaces that the section has described so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Blocks skipped because their type is not read.
    pub const fn blocks_skipped(&self) -> u64 {
        self.blocks_skipped
    }

    /// Bytes of the file that the reader is done with; where an error lies.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Looks for the next packet or statistics in `input`.
    ///
    /// # Errors
    /// When the file is not as the format requires; there is no way to go on after it.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Progress<'a>> {
        let mut consumed = 0;
        loop {
            consumed += self.skip_from(&input[consumed..]);
            if self.skip > 0 {
                return Ok(Progress { consumed, event: None });
            }
            let block = match self.front(&input[consumed..])? {
                Front::Block(block) => block,
                Front::Other(len) => {
                    self.blocks_skipped += 1;
                    self.skip = len;
                    continue;
                }
                Front::Cut(needed) => {
                    self.needed = needed;
                    return Ok(Progress { consumed, event: None });
                }
            };
            let event = self.read(block)?;
            consumed += block.len();
            self.position += block.len() as u64;
            if event.is_some() {
                return Ok(Progress { consumed, event });
            }
        }
    }

    /// Says whether a file that ends with `rest`, the bytes not consumed, is whole.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it is empty or ends inside a block.
    pub fn finish(&self, rest: &[u8]) -> Result<()> {
        let expected = if self.skip > 0 { self.skip as usize } else { self.needed };
        if self.order.is_some() && self.skip == 0 && rest.is_empty() {
            return Ok(());
        }
        Err(Error::Truncated { format: FORMAT, expected, got: rest.len() })
    }

    /// Passes over what is left of a skipped block, and says how many bytes of it `input` held.
    fn skip_from(&mut self, input: &[u8]) -> usize {
        let len = self.skip.min(input.len() as u64);
        self.skip -= len;
        self.position += len;
        len as usize
    }

    fn front<'a>(&mut self, input: &'a [u8]) -> Result<Front<'a>> {
        if input.len() < field::BLOCK_LEN_MIN {
            return Ok(Front::Cut(field::BLOCK_LEN_MIN));
        }
        let order = self.order_at(input)?;
        let kind = order.u32(array(input, field::TYPE));
        let len = order.u32(array(input, field::TOTAL_LEN));
        let Some(len_min) = fixed_len(kind) else {
            check_block_len(len, field::BLOCK_LEN_MIN, u32::MAX as usize)?;
            return Ok(Front::Other(len.into()));
        };
        check_block_len(len, len_min, RECORD_LEN_MAX)?;
        let len = len as usize;
        let Some(block) = input.get(..len) else {
            return Ok(Front::Cut(len));
        };
        let (expected, got) = (len as u64, order.u32(array(block, len - 4)).into());
        if got != expected {
            let field = "block length at the end";
            return Err(Error::Value { format: FORMAT, field, expected, got });
        }
        Ok(Front::Block(block))
    }

    /// Byte order of the block at the front of `input`: its own if it begins a section.
    fn order_at(&self, input: &[u8]) -> Result<ByteOrder> {
        let kind = u32::from_le_bytes(array(input, field::TYPE));
        if kind != block_type::SECTION {
            let (expected, got) = (block_type::SECTION.into(), kind.into());
            let field = "first block type";
            return self.order.ok_or(Error::Value { format: FORMAT, field, expected, got });
        }
        let magic = array(input, field::section::MAGIC);
        [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| order.u32(magic) == BYTE_ORDER_MAGIC)
            .ok_or(Error::Unknown {
                format: FORMAT,
                field: "byte-order magic",
                got: u32::from_be_bytes(magic).into(),
            })
    }

    /// Reads a whole block, which is at least as long as its fixed fields.
    fn read<'a>(&mut self, block: &'a [u8]) -> Result<Option<Event<'a>>> {
        let order = self.order_at(block)?;
        match order.u32(array(block, field::TYPE)) {
            block_type::SECTION => self.start_section(block, order).map(|()| None),
            block_type::INTERFACE => self.add_interface(block, order).map(|()| None),
            block_type::SIMPLE_PACKET => self.simple_packet(block, order).map(Some),
            block_type::STATISTICS => self.statistics(block, order).map(Some),
            _ => self.enhanced_packet(block, order).map(Some),
        }
    }

    fn start_section(&mut self, block: &[u8], order: ByteOrder) -> Result<()> {
        let major = order.u16(array(block, field::section::MAJOR));
        if major != MAJOR {
            let (field, expected, got) = ("major version", MAJOR.into(), major.into());
            return Err(Error::Value { format: FORMAT, field, expected, got });
        }
        self.order = Some(order);
        self.interfaces.clear();
        Ok(())
    }

    fn add_interface(&mut self, block: &[u8], order: ByteOrder) -> Result<()> {
        if self.interfaces.len() == INTERFACES_MAX {
            let (max, got) = (INTERFACES_MAX as u64, INTERFACES_MAX as u64 + 1);
            let field = "interfaces of a section";
            return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
        }
        self.interfaces.push(Interface::parse(block, order)?);
        Ok(())
    }

    fn interface(&self, number: u32) -> Result<&Interface> {
        let (field, got) = ("interface of a packet", number.into());
        self.interfaces.get(number as usize).ok_or(Error::Unknown { format: FORMAT, field, got })
    }

    /// Interface number and time of a statistics or enhanced packet block.
    fn timed(&self, block: &[u8], order: ByteOrder) -> Result<(u32, &Interface, u64)> {
        let number = order.u32(array(block, field::timed::INTERFACE));
        let interface = self.interface(number)?;
        let high = order.u32(array(block, field::timed::TIME_HIGH));
        let low = order.u32(array(block, field::timed::TIME_LOW));
        Ok((number, interface, interface.timestamp_ns(u64::from(high) << 32 | u64::from(low))))
    }

    fn enhanced_packet<'a>(&self, block: &'a [u8], order: ByteOrder) -> Result<Event<'a>> {
        let (number, interface, timestamp_ns) = self.timed(block, order)?;
        let captured_len = order.u32(array(block, field::enhanced::CAPTURED_LEN)) as usize;
        Ok(Event::Packet(Packet {
            interface: number,
            link_type: interface.link_type,
            timestamp_ns: Some(timestamp_ns),
            original_len: order.u32(array(block, field::enhanced::ORIGINAL_LEN)),
            data: data(block, field::enhanced::DATA, captured_len)?,
        }))
    }

    fn simple_packet<'a>(&self, block: &'a [u8], order: ByteOrder) -> Result<Event<'a>> {
        let interface = self.interface(0)?;
        let original_len = order.u32(array(block, field::simple::ORIGINAL_LEN));
        let captured_len = match interface.snap_len {
            0 => original_len,
            snap_len => original_len.min(snap_len),
        };
        Ok(Event::Packet(Packet {
            interface: 0,
            link_type: interface.link_type,
            timestamp_ns: None,
            original_len,
            data: data(block, field::simple::DATA, captured_len as usize)?,
        }))
    }

    fn statistics(&self, block: &[u8], order: ByteOrder) -> Result<Event<'static>> {
        let (number, _, timestamp_ns) = self.timed(block, order)?;
        let mut statistics = Statistics { interface: number, timestamp_ns, ..Default::default() };
        for option in Options::new(&block[field::timed::END..block.len() - 4], order) {
            let (code, value) = option?;
            let counter = match code {
                options::code::RECEIVED => &mut statistics.received,
                options::code::DROPPED_BY_INTERFACE => &mut statistics.dropped_by_interface,
                options::code::DROPPED_BY_SYSTEM => &mut statistics.dropped_by_system,
                _ => continue,
            };
            *counter = Some(order.u64(options::fixed(value)?));
        }
        Ok(Event::Statistics(statistics))
    }
}

/// Bytes of the fixed fields of a block that is read, both lengths included.
const fn fixed_len(kind: u32) -> Option<usize> {
    Some(
        4 + match kind {
            block_type::SECTION => field::section::END,
            block_type::INTERFACE => field::interface::OPTIONS,
            block_type::SIMPLE_PACKET => field::simple::DATA,
            block_type::STATISTICS => field::timed::END,
            block_type::ENHANCED_PACKET => field::enhanced::DATA,
            _ => return None,
        },
    )
}

fn check_block_len(len: u32, min: usize, max: usize) -> Result<()> {
    let (min, max, got) = (min as u64, max as u64, u64::from(len));
    if !(min..=max).contains(&got) {
        return Err(Error::Range { format: FORMAT, field: "block length", min, max, got });
    }
    if !got.is_multiple_of(4) {
        let (field, expected, got) = ("block length modulo 4", 0, got % 4);
        return Err(Error::Value { format: FORMAT, field, expected, got });
    }
    Ok(())
}

/// The captured bytes of a packet block.
fn data(block: &[u8], start: usize, len: usize) -> Result<&[u8]> {
    if len > PACKET_LEN_MAX {
        let (field, max, got) = ("captured length", PACKET_LEN_MAX as u64, len as u64);
        return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
    }
    let room = &block[start..block.len() - 4];
    check_len("pcapng packet", room, len)?;
    Ok(&room[..len])
}

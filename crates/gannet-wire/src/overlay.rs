//! Trigger object overlay: the data of a trigger object with the objects it was made from.

use core::fmt;
use core::marker::PhantomData;

use crate::error::{Error, Result};
use crate::layout::check_len;
use crate::little_endian as le;
use crate::record::{Record, Records, emit_all};

/// A stored trigger object `D` and its inputs `I`, read in place.
///
/// ```text
///  0          D::LEN        D::LEN + 8
/// +----------+-------------+----------+-----+----------+
/// |  data D  | n_inputs u64| input 0  | ... | input n-1|
/// +----------+-------------+----------+-----+----------+
/// ```
///
/// The number of inputs is tested against the bytes that are there before it is used, and nothing
/// is allocated.
///
/// Source: DUNE-DAQ/trgdataformats `TriggerObjectOverlay.hpp`.
#[derive(Debug)]
pub struct Overlay<'a, D, I> {
    bytes: &'a [u8],
    inputs: Records<'a, I>,
    data: PhantomData<D>,
}

/// Bytes of the number of inputs.
const COUNT_LEN: usize = 8;

impl<'a, D: Record, I: Record> Overlay<'a, D, I> {
    /// Bytes of an object without inputs.
    pub const HEADER_LEN: usize = D::LEN + COUNT_LEN;

    /// The object at the start of untrusted bytes; what follows it is ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when not even the count is there, [`Error::Range`] when fewer inputs
    /// are there than counted, else as [`Record::check`] of the data or of an input.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        check_len(D::FORMAT, bytes, Self::HEADER_LEN)?;
        D::check(bytes)?;
        let got = le::u64(bytes, D::LEN);
        let max = ((bytes.len() - Self::HEADER_LEN) / I::LEN) as u64;
        if got > max {
            return Err(Error::Range { format: D::FORMAT, field: "n_inputs", min: 0, max, got });
        }
        // At most `max`, which came from a length in memory.
        let bytes = &bytes[..buffer_len::<D, I>(got as usize)];
        let inputs = Records::new_checked(&bytes[Self::HEADER_LEN..])?;
        Ok(Self { bytes, inputs, data: PhantomData })
    }

    /// The data of the object.
    pub fn data(&self) -> D {
        D::read(self.bytes)
    }

    /// The objects that it was made from, in stored order.
    pub fn inputs(&self) -> Records<'a, I> {
        self.inputs.clone()
    }

    /// The bytes of the object with its inputs.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// Prints the data and the number of inputs.
impl<D: Record + fmt::Display, I: Record> fmt::Display for Overlay<'_, D, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {} inputs", self.data(), self.inputs().len())
    }
}

/// Bytes of an object with `n_inputs` inputs.
pub const fn buffer_len<D: Record, I: Record>(n_inputs: usize) -> usize {
    D::LEN + COUNT_LEN + n_inputs * I::LEN
}

/// Writes an object and its inputs to the start of `bytes`.
///
/// # Panics
/// If `bytes` is shorter than [`buffer_len`] of the number of inputs.
pub fn emit<D: Record, I: Record>(data: &D, inputs: &[I], bytes: &mut [u8]) {
    data.emit(bytes);
    le::put(bytes, D::LEN, (inputs.len() as u64).to_le_bytes());
    emit_all(inputs, &mut bytes[D::LEN + COUNT_LEN..]);
}

/// Objects stored one after the other, as in the payload of a fragment.
///
/// Each has its own length, so each is checked when it is reached. After an error there is no
/// next object.
#[derive(Clone, Debug)]
pub struct Overlays<'a, D, I> {
    bytes: &'a [u8],
    kind: PhantomData<(D, I)>,
}

impl<'a, D: Record, I: Record> Overlays<'a, D, I> {
    /// The objects that fill `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, kind: PhantomData }
    }
}

impl<'a, D: Record, I: Record> Iterator for Overlays<'a, D, I> {
    type Item = Result<Overlay<'a, D, I>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.bytes.is_empty() {
            return None;
        }
        let object = Overlay::new_checked(self.bytes);
        let read = object.as_ref().map_or(self.bytes.len(), |object| object.bytes.len());
        self.bytes = &self.bytes[read..];
        Some(object)
    }
}

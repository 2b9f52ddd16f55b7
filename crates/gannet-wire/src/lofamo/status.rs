//! What is known of a host, a NIC, a link or a sensor.

use core::fmt;

use crate::layout::FieldValue;

/// Two bits of knowledge; what was never heard of is [`Unknown`](Self::Unknown), never normal.
///
/// Ordered by how bad it is, so that the worst of several is their maximum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Status {
    /// Nothing was heard yet, or what was heard no longer counts.
    #[default]
    Unknown = 0,
    /// It works.
    Normal = 1,
    /// It works, out of its limits.
    Sick = 2,
    /// It does not work.
    Failed = 3,
}

impl Status {
    /// The status of a code; bits above the lowest two are dropped.
    #[inline]
    pub const fn from_code(code: u8) -> Self {
        match code & 3 {
            0 => Self::Unknown,
            1 => Self::Normal,
            2 => Self::Sick,
            _ => Self::Failed,
        }
    }

    /// The code: 0 unknown, 1 normal, 2 sick, 3 failed.
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// Whether something is wrong: sick or failed.
    #[inline]
    pub const fn is_fault(self) -> bool {
        matches!(self, Self::Sick | Self::Failed)
    }

    /// The name used in tables: `unknown`, `normal`, `sick` or `failed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Normal => "normal",
            Self::Sick => "sick",
            Self::Failed => "failed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FieldValue for Status {
    #[inline]
    fn from_bits(bits: u64) -> Self {
        Self::from_code(bits as u8)
    }

    #[inline]
    fn to_bits(self) -> u64 {
        self.code().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_registers_and_nothing_heard_is_not_normal() {
        let names = [0, 1, 2, 3, 4].map(|code| Status::from_code(code).name());
        assert_eq!(names, ["unknown", "normal", "sick", "failed", "unknown"]);
        assert!((0..4).all(|code| Status::from_code(code).code() == code));
        assert_eq!(Status::default(), Status::Unknown);
        assert!(!Status::Unknown.is_fault() && Status::Sick.is_fault());
        assert_eq!(Status::Normal.max(Status::Failed), Status::Failed);
    }
}

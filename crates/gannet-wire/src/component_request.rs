//! Component request: the time window asked of one source.

use core::fmt;

use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::record::Record;
use crate::source_id::SourceId;

mod field {
    pub const VERSION: usize = 0;
    pub const UNUSED: usize = 4;
    pub const COMPONENT: usize = 8;
    pub const WINDOW_BEGIN: usize = 16;
    pub const WINDOW_END: usize = 24;
    pub const END: usize = 32;
}

/// What a trigger record asks of one source.
///
/// ```text
///  byte  0                4               8
///      0 +----------------+---------------+
///        |  version (2)   |  0xffffffff   |
///      8 +----------------+---------------+
///        |      component (source id)     |
///     16 +--------------------------------+
///        |          window_begin          |
///     24 +--------------------------------+
///        |           window_end           |
///        +--------------------------------+
/// ```
///
/// Source: DUNE-DAQ/daqdataformats `ComponentRequest.hpp`, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ComponentRequest {
    /// The source.
    pub component: SourceId,
    /// First tick of the window.
    pub window_begin: u64,
    /// Tick after the window.
    pub window_end: u64,
}

impl ComponentRequest {
    /// Version that this layout carries.
    pub const VERSION: u32 = 2;
}

impl Record for ComponentRequest {
    const FORMAT: &'static str = "component request";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        match le::u32(bytes, field::VERSION) {
            Self::VERSION => SourceId::check(&bytes[field::COMPONENT..]),
            got => Err(Error::Version { format: Self::FORMAT, known: "2", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            component: SourceId::read(&bytes[field::COMPONENT..]),
            window_begin: le::u64(bytes, field::WINDOW_BEGIN),
            window_end: le::u64(bytes, field::WINDOW_END),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        le::put(bytes, field::VERSION, Self::VERSION.to_le_bytes());
        le::put(bytes, field::UNUSED, u32::MAX.to_le_bytes());
        self.component.emit(&mut bytes[field::COMPONENT..]);
        le::put(bytes, field::WINDOW_BEGIN, self.window_begin.to_le_bytes());
        le::put(bytes, field::WINDOW_END, self.window_end.to_le_bytes());
    }
}

/// Prints every field with its unit on one line.
impl fmt::Display for ComponentRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { component, window_begin, window_end } = self;
        write!(f, "{component}, window {window_begin} to {window_end} ticks")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_id::Subsystem;
    use proptest::prelude::*;

    const REQUEST: ComponentRequest = ComponentRequest {
        component: SourceId::new(Subsystem::Trigger, 5),
        window_begin: 1000,
        window_end: 2001,
    };

    #[test]
    fn stored_form() {
        let mut bytes = [0; ComponentRequest::LEN];
        REQUEST.emit(&mut bytes);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes[8..16], [2, 0, 3, 0, 5, 0, 0, 0]);
        assert_eq!(bytes[16..24], [0xe8, 3, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], [0xd1, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ComponentRequest::parse(&bytes), Ok(REQUEST));
        assert_eq!(REQUEST.to_string(), "Trigger_0x00000005, window 1000 to 2001 ticks");
    }

    #[test]
    fn malformed_version() {
        let mut bytes = [0; ComponentRequest::LEN];
        REQUEST.emit(&mut bytes);
        bytes[0] = 1;
        let error = Error::Version { format: "component request", known: "2", got: 1 };
        assert_eq!(ComponentRequest::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_version_of_the_source() {
        let mut bytes = [0; ComponentRequest::LEN];
        REQUEST.emit(&mut bytes);
        bytes[8] = 1;
        let error = Error::Version { format: "source id", known: "2", got: 1 };
        assert_eq!(ComponentRequest::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "component request", expected: 32, got: 31 };
        assert_eq!(ComponentRequest::parse(&[2; 31]), Err(error));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_request_comes_back(
            (subsystem, id) in any::<(u16, u32)>(),
            (window_begin, window_end) in any::<(u64, u64)>(),
        ) {
            let component = SourceId::new(Subsystem::from_number(subsystem), id);
            let request = ComponentRequest { component, window_begin, window_end };
            let mut bytes = [0; 32];
            request.emit(&mut bytes);
            prop_assert_eq!(ComponentRequest::parse(&bytes), Ok(request));
        }
    }
}

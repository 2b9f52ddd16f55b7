//! Links, by how fast they bring bytes.

use serde::{Serialize, Serializer};

/// A link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Ethernet of 1 Gbit/s.
    GbE,
    /// Ethernet of 10 Gbit/s.
    TenGbE,
    /// APElink, of which 2.2 GB/s arrive.
    ApeLink,
    /// As fast as memory is copied.
    Unpaced,
}

impl Link {
    /// All of them, the slowest first.
    pub const ALL: [Self; 4] = [Self::GbE, Self::TenGbE, Self::ApeLink, Self::Unpaced];

    /// Rate of the bytes of events, if the link sets one.
    pub fn bits_per_s(self) -> Option<f64> {
        match self {
            Self::GbE => Some(1e9),
            Self::TenGbE => Some(10e9),
            Self::ApeLink => Some(8.0 * 2.2e9),
            Self::Unpaced => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::GbE => "GbE",
            Self::TenGbE => "10GbE",
            Self::ApeLink => "APElink",
            Self::Unpaced => "unpaced",
        }
    }
}

impl Serialize for Link {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

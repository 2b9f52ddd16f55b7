//! Trigger primitive, version 2: one hit on one channel, 24 bytes.

/// A trigger primitive (TP) in its stored form: three little-endian 64-bit words.
///
/// The stored form is also the form used in memory, so a kernel writes it once and everything
/// after it, the network and the file included, moves it unchanged.
///
/// ```text
/// word 0   63             48 47            24 23     16 15      8 7       0
///         +-----------------+----------------+---------+---------+---------+
///         | samples over    |    channel     |  detid  |  flag   | version |
///         +-----------------+----------------+---------+---------+---------+
/// word 1  |                       time_start (ticks)                       |
/// word 2  +-----------------+----------------------------+-----------------+
///         |   adc_peak (16) |     adc_integral (32)      | samples to peak |
///         +-----------------+----------------------------+-----------------+
/// ```
///
/// Source: DUNE-DAQ/trgdataformats `TriggerPrimitive.hpp`, version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TriggerPrimitive {
    /// The three words, in native byte order in memory and little-endian when stored.
    pub words: [u64; 3],
}

impl TriggerPrimitive {
    /// Bytes of the stored form.
    pub const LEN: usize = 24;
    /// Version that this layout carries.
    pub const VERSION: u8 = 2;

    /// Layout version, 2 in a valid primitive.
    pub const fn version(&self) -> u8 {
        self.words[0] as u8
    }

    /// Flag bits, 0 unless a producer sets them.
    pub const fn flag(&self) -> u8 {
        (self.words[0] >> 8) as u8
    }

    /// Detector identifier.
    pub const fn detid(&self) -> u8 {
        (self.words[0] >> 16) as u8
    }

    /// Offline channel number, 24 bits.
    pub const fn channel(&self) -> u32 {
        (self.words[0] >> 24) as u32 & 0xff_ffff
    }

    /// Number of samples over threshold.
    pub const fn samples_over_threshold(&self) -> u16 {
        (self.words[0] >> 48) as u16
    }

    /// Time of the first sample over threshold, in ticks.
    pub const fn time_start(&self) -> u64 {
        self.words[1]
    }

    /// Samples from the start of the hit to its peak.
    pub const fn samples_to_peak(&self) -> u16 {
        self.words[2] as u16
    }

    /// Sum of the samples over threshold, in ADC counts above the pedestal.
    pub const fn adc_integral(&self) -> u32 {
        (self.words[2] >> 16) as u32
    }

    /// Largest sample of the hit, in ADC counts above the pedestal.
    pub const fn adc_peak(&self) -> u16 {
        (self.words[2] >> 48) as u16
    }

    /// Order in which primitives are merged and stored: start time, then channel.
    pub const fn time_order(&self) -> (u64, u32) {
        (self.time_start(), self.channel())
    }
}

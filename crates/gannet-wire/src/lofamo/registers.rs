//! The three registers, 64 bits each.
//!
//! ```text
//! Host Watchdog Register
//!  63          32 31     22 21 20 19  18 17  16 15     14 13 12 11  10 9   8 7   5   4   3      0
//! +--------------+---------+-----+------+------+---------+-----+------+-----+-----+-----+--------+
//! |    beats     |reserved | DAQ |  net |store | acceler.| CPU |memory|host | res.|alive| version|
//! +--------------+---------+-----+------+------+---------+-----+------+-----+-----+-----+--------+
//! NIC Watchdog Register
//!  63          32 31    28 27 26 25 24 23 22 21 20 19 18 17 16 15 14 13 12 11 10 9 8 7 5  4   3  0
//! +--------------+--------+-----+-----+-----+-----+-----+-----+-----+-----+-----+---+---+----+----+
//! |    beats     |reserved|  Z- |  Z+ |  Y- |  Y+ |  X- |  X+ |power|volt.|temp.|NIC|res|aliv|vers|
//! +--------------+--------+-----+-----+-----+-----+-----+-----+-----+-----+-----+---+---+----+----+
//! Remote Fault Descriptor
//!  63                40 39        24 23   16 15 14 13 12 11 10 9  8 7  6 5  4 3   2 1    0
//! +--------------------+------------+-------+-----+-----+-----+----+----+----+-----+------+
//! |       origin       |     age    | epoch |  Z- |  Z+ |  Y- | Y+ | X- | X+ | NIC | host |
//! +--------------------+------------+-------+-----+-----+-----+----+----+----+-----+------+
//! ```
//!
//! Fields of two bits are a [`Status`].
//!
//! Source: arXiv:1307.0433 for what the registers hold; the places of the bits are ours.

use super::Status;
use crate::layout::word_format;

/// Version of the two watchdog registers.
pub const VERSION: u8 = 1;

word_format! {
    /// View of a Host Watchdog Register.
    view HostWatchdog;
    /// A Host Watchdog Register as plain values: what the host says of itself.
    repr HostWatchdogRepr;
    format "Host Watchdog Register", 1 words;

    /// Version of the layout.
    version, set_version: u8 = word 0, bits 0..=3;
    /// Changes with every beat.
    alive, set_alive: bool = word 0, bits 4..=4;
    /// Reserved, 0.
    reserved_0, set_reserved_0: u8 = word 0, bits 5..=7;
    /// The host as a whole.
    host, set_host: Status = word 0, bits 8..=9;
    /// Memory: corrected and uncorrected errors.
    memory, set_memory: Status = word 0, bits 10..=11;
    /// Processors: temperature and throttling.
    cpu, set_cpu: Status = word 0, bits 12..=13;
    /// Accelerators.
    accelerator, set_accelerator: Status = word 0, bits 14..=15;
    /// Storage.
    storage, set_storage: Status = word 0, bits 16..=17;
    /// Service network, over which the master is told.
    service_network, set_service_network: Status = word 0, bits 18..=19;
    /// Processes of the data acquisition.
    processes, set_processes: Status = word 0, bits 20..=21;
    /// Reserved, 0.
    reserved_1, set_reserved_1: u16 = word 0, bits 22..=31;
    /// Beats since the host started, modulo 2^32.
    beats, set_beats: u32 = word 0, bits 32..=63, "beats";
}

word_format! {
    /// View of a NIC Watchdog Register.
    view NicWatchdog;
    /// A NIC Watchdog Register as plain values: what the NIC says of itself and its links.
    repr NicWatchdogRepr;
    format "NIC Watchdog Register", 1 words;

    /// Version of the layout.
    version, set_version: u8 = word 0, bits 0..=3;
    /// Changes with every beat.
    alive, set_alive: bool = word 0, bits 4..=4;
    /// Reserved, 0.
    reserved_0, set_reserved_0: u8 = word 0, bits 5..=7;
    /// The NIC as a whole.
    nic, set_nic: Status = word 0, bits 8..=9;
    /// Temperature.
    temperature, set_temperature: Status = word 0, bits 10..=11;
    /// Supply voltage.
    voltage, set_voltage: Status = word 0, bits 12..=13;
    /// Supply current.
    power, set_power: Status = word 0, bits 14..=15;
    /// Link to the next node in x.
    x_plus, set_x_plus: Status = word 0, bits 16..=17;
    /// Link to the previous node in x.
    x_minus, set_x_minus: Status = word 0, bits 18..=19;
    /// Link to the next node in y.
    y_plus, set_y_plus: Status = word 0, bits 20..=21;
    /// Link to the previous node in y.
    y_minus, set_y_minus: Status = word 0, bits 22..=23;
    /// Link to the next node in z.
    z_plus, set_z_plus: Status = word 0, bits 24..=25;
    /// Link to the previous node in z.
    z_minus, set_z_minus: Status = word 0, bits 26..=27;
    /// Reserved, 0.
    reserved_1, set_reserved_1: u8 = word 0, bits 28..=31;
    /// Beats since the NIC started, modulo 2^32.
    beats, set_beats: u32 = word 0, bits 32..=63, "beats";
}

word_format! {
    /// View of a Remote Fault Descriptor.
    view FaultDescriptor;
    /// A Remote Fault Descriptor as plain values: what a node says of itself to others.
    repr FaultDescriptorRepr;
    format "Remote Fault Descriptor", 1 words;

    /// Host of the origin.
    host, set_host: Status = word 0, bits 0..=1;
    /// NIC of the origin.
    nic, set_nic: Status = word 0, bits 2..=3;
    /// Link of the origin to the next node in x.
    x_plus, set_x_plus: Status = word 0, bits 4..=5;
    /// Link of the origin to the previous node in x.
    x_minus, set_x_minus: Status = word 0, bits 6..=7;
    /// Link of the origin to the next node in y.
    y_plus, set_y_plus: Status = word 0, bits 8..=9;
    /// Link of the origin to the previous node in y.
    y_minus, set_y_minus: Status = word 0, bits 10..=11;
    /// Link of the origin to the next node in z.
    z_plus, set_z_plus: Status = word 0, bits 12..=13;
    /// Link of the origin to the previous node in z.
    z_minus, set_z_minus: Status = word 0, bits 14..=15;
    /// Number of the change, modulo 256; grows by one whenever a status of the origin changes.
    epoch, set_epoch: u8 = word 0, bits 16..=23;
    /// Time since that change; 65535 stands for more.
    age_ms, set_age_ms: u16 = word 0, bits 24..=39, "ms";
    /// Number of the node whose status this is.
    origin, set_origin: u32 = word 0, bits 40..=63;
}

/// The register as the word that is written and read at once.
macro_rules! as_word {
    ($($View:ident $Repr:ident)+) => {$(
        impl $Repr {
            /// The register that `word` holds; every word is valid.
            #[inline]
            pub fn from_word(word: u64) -> Self {
                Self::parse(&$View::new_unchecked(word.to_le_bytes()))
            }

            /// The register as one word.
            #[inline]
            pub fn word(&self) -> u64 {
                let mut view = $View::new_unchecked([0; Self::LEN]);
                self.emit(&mut view);
                u64::from_le_bytes(view.into_inner())
            }
        }
    )+};
}
as_word!(HostWatchdog HostWatchdogRepr NicWatchdog NicWatchdogRepr FaultDescriptor FaultDescriptorRepr);

impl FaultDescriptorRepr {
    /// The links in the order X+, X-, Y+, Y-, Z+, Z-.
    pub const fn links(&self) -> [Status; 6] {
        [self.x_plus, self.x_minus, self.y_plus, self.y_minus, self.z_plus, self.z_minus]
    }

    /// The descriptor with these links, in the order X+, X-, Y+, Y-, Z+, Z-.
    pub const fn with_links(self, links: [Status; 6]) -> Self {
        let [x_plus, x_minus, y_plus, y_minus, z_plus, z_minus] = links;
        Self { x_plus, x_minus, y_plus, y_minus, z_plus, z_minus, ..self }
    }
}

impl NicWatchdogRepr {
    /// The links in the order X+, X-, Y+, Y-, Z+, Z-.
    pub const fn links(&self) -> [Status; 6] {
        [self.x_plus, self.x_minus, self.y_plus, self.y_minus, self.z_plus, self.z_minus]
    }

    /// The register with these links, in the order X+, X-, Y+, Y-, Z+, Z-.
    pub const fn with_links(self, links: [Status; 6]) -> Self {
        let [x_plus, x_minus, y_plus, y_minus, z_plus, z_minus] = links;
        Self { x_plus, x_minus, y_plus, y_minus, z_plus, z_minus, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    const LINKS: [Status; 6] = [
        Status::Normal,
        Status::Failed,
        Status::Sick,
        Status::Unknown,
        Status::Normal,
        Status::Failed,
    ];

    #[test]
    fn stored_forms() {
        let host = HostWatchdogRepr {
            version: VERSION,
            alive: true,
            host: Status::Normal,
            cpu: Status::Sick,
            service_network: Status::Failed,
            beats: 0x0102_0304,
            ..HostWatchdogRepr::default()
        };
        assert_eq!(host.word(), 0x0102_0304_000c_2111);
        let nic = NicWatchdogRepr {
            version: VERSION,
            nic: Status::Sick,
            temperature: Status::Sick,
            beats: 7,
            ..NicWatchdogRepr::default()
        };
        assert_eq!(nic.with_links(LINKS).word(), 0x0000_0007_0d2d_0a01);
        let descriptor = FaultDescriptorRepr {
            host: Status::Failed,
            nic: Status::Normal,
            epoch: 0xab,
            age_ms: 0x1234,
            origin: 0x000f_fffe,
            ..FaultDescriptorRepr::default()
        };
        assert_eq!(descriptor.with_links(LINKS).word(), 0x0fff_fe12_34ab_d2d7);
        assert_eq!(FaultDescriptorRepr::from_word(0x0fff_fe12_34ab_d2d7).links(), LINKS);
        assert_eq!(NicWatchdogRepr::from_word(0x0d2d_0a01).links(), LINKS);
    }

    #[test]
    fn an_empty_register_knows_nothing() {
        let descriptor = FaultDescriptorRepr::from_word(0);
        assert_eq!((descriptor.host, descriptor.nic), (Status::Unknown, Status::Unknown));
        assert_eq!(descriptor.links(), [Status::Unknown; 6]);
    }

    #[test]
    fn a_register_cut_short_is_refused() {
        let error = HostWatchdog::new_checked([0; 7]).unwrap_err();
        let expected = Error::Truncated { format: "Host Watchdog Register", expected: 8, got: 7 };
        assert_eq!(error, expected);
        assert!(NicWatchdog::new_checked([0; 7]).is_err());
        assert!(FaultDescriptor::new_checked([0; 7]).is_err());
    }

    #[test]
    fn every_field_is_printed() {
        let text = FaultDescriptorRepr::from_word(0x0fff_fe12_34ab_d2d7).to_string();
        assert!(text.contains("host                   failed"), "{text}");
        assert!(text.contains("age_ms                 4660 ms"), "{text}");
        assert!(HostWatchdogRepr::from_word(0).to_string().contains("beats"), "{text}");
        assert!(NicWatchdogRepr::from_word(3 << 26).to_string().contains("failed"), "{text}");
    }

    proptest! {
        #[test]
        fn every_word_comes_back(word: u64) {
            prop_assert_eq!(HostWatchdogRepr::from_word(word).word(), word);
            prop_assert_eq!(NicWatchdogRepr::from_word(word).word(), word);
            let descriptor = FaultDescriptorRepr::from_word(word);
            prop_assert_eq!(descriptor.word(), word);
            prop_assert_eq!(descriptor.with_links(descriptor.links()).word(), word);
        }
    }
}

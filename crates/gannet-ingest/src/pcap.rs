//! Datagrams from a capture file, pcap or pcapng.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_wire::capture::{Event, LINK_TYPE_ETHERNET, LINK_TYPE_IPV4, LINK_TYPE_RAW, Packet};
use gannet_wire::capture_file::{Reader, Window};
use gannet_wire::network::{Checksums, Refusal, UdpPayload, from_ethernet, from_ipv4};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::landed::{BATCH_FRAMES, Landed};
use crate::source::{Landing, Source};
use crate::udp::{AllowList, SenderRule};

/// Packets looked at in one poll, whether or not they are ours.
const PACKETS_MAX: usize = 16 * BATCH_FRAMES;

/// Options of a capture file source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PcapConfig {
    /// The file, pcap or pcapng.
    pub path: PathBuf,
    /// UDP ports whose datagrams are taken; empty for all.
    #[serde(default)]
    pub ports: Vec<u16>,
    /// Senders that are listened to; empty for everybody.
    #[serde(default)]
    pub allow: Vec<SenderRule>,
    /// Whether to test check sums. Captures made on the sending machine often have none.
    #[serde(default)]
    pub verify_checksums: bool,
}

/// Takes the UDP payloads out of a capture file, as fast as it is polled.
///
/// Packets that are not UDP over IPv4, or go to another port, are passed over and not counted.
pub struct PcapSource {
    landed: Landed,
    config: PcapConfig,
    allow: AllowList,
    checksums: Checksums,
    file: File,
    reader: Reader,
    window: Window,
    clock: Arc<dyn Clock>,
    started: bool,
    ended: bool,
    /// An error that was met behind frames, for the poll after the one that delivers them.
    failure: Option<Error>,
}

impl PcapSource {
    /// Opens the file.
    ///
    /// # Errors
    /// When it cannot be opened, a length is out of range or memory is short. What is in
    /// the file is looked at in [`Source::poll`].
    pub fn open(
        config: &PcapConfig,
        landing: Landing,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, Error> {
        let path = config.path.clone();
        let file = File::open(&path).map_err(|cause| Error::File { path, cause })?;
        let name = format!("capture file {}", config.path.display());
        let checksums = if config.verify_checksums { Checksums::Verify } else { Checksums::Trust };
        Ok(Self {
            landed: Landed::new(landing, BATCH_FRAMES, name, "file")?,
            config: config.clone(),
            allow: AllowList::new(&config.allow),
            checksums,
            file,
            reader: Reader::new(),
            window: Window::new(),
            clock,
            started: false,
            ended: false,
            failure: None,
        })
    }

    fn capture_error(&self, cause: gannet_wire::Error) -> Error {
        let (path, position) = (self.config.path.clone(), self.reader.position());
        Error::Capture { path, position, cause }
    }

    /// Takes the next packet out of the window; false when the file has ended.
    fn step(&mut self) -> Result<bool, Error> {
        let bytes = self.window.bytes();
        let progress = match self.reader.next(bytes) {
            Ok(progress) => progress,
            Err(cause) => return Err(self.capture_error(cause)),
        };
        let wants_more = progress.event.is_none();
        if let Some(Event::Packet(packet)) = progress.event {
            let payload = payload(&packet, self.checksums).ok_or_else(|| Error::LinkType {
                path: self.config.path.clone(),
                got: packet.link_type,
            })?;
            let ports = &self.config.ports;
            let is_ours = |found: &UdpPayload<'_>| {
                ports.is_empty() || ports.contains(&found.destination.port())
            };
            if payload.as_ref().map_or(true, is_ours) {
                self.landed.land_packet(&mut self.allow, payload);
            }
        }
        self.window.consume(progress.consumed);
        if !wants_more {
            return Ok(true);
        }
        match self.file.read(self.window.spare()) {
            Ok(0) => Ok(false),
            Ok(len) => {
                self.window.fill(len);
                Ok(true)
            }
            Err(cause) => Err(Error::File { path: self.config.path.clone(), cause }),
        }
    }

    /// Lands some of the next datagrams.
    fn fill(&mut self) -> Result<(), Error> {
        for _ in 0..PACKETS_MAX {
            if self.landed.is_full() || self.ended {
                break;
            }
            if !self.step()? {
                self.ended = true;
                let end = self.reader.finish(self.window.bytes());
                return end.map_err(|cause| self.capture_error(cause));
            }
        }
        Ok(())
    }
}

/// The payload of a packet or why it has none; `None` for an unknown kind of link.
fn payload<'a>(
    packet: &Packet<'a>,
    checksums: Checksums,
) -> Option<Result<UdpPayload<'a>, Refusal>> {
    match packet.link_type {
        LINK_TYPE_ETHERNET => Some(from_ethernet(packet.data, checksums)),
        LINK_TYPE_RAW | LINK_TYPE_IPV4 => Some(from_ipv4(packet.data, checksums)),
        _ => None,
    }
}

impl Source for PcapSource {
    fn start(&mut self) -> Result<(), Error> {
        self.started = true;
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Result<usize, Error> {
        self.landed.clear();
        if !self.started {
            return Err(Error::NotStarted);
        }
        self.landed.arrival_ns = self.clock.now_ns();
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        if let Err(failure) = self.fill() {
            self.ended = true;
            if self.landed.arrivals().is_empty() {
                return Err(failure);
            }
            self.failure = Some(failure);
        }
        Ok(self.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.ended = true;
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.ended && self.failure.is_none()
    }
}

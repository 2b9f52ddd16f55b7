//! How frames are taken from a socket.

use std::io;

use gannet_ingest::udp::{CoalescedSocket, Message};

/// Messages in a row, none of them long, after which frames are taken as datagrams.
const SHORT_MAX: u32 = 16;
/// Bytes of the longest message that is not: frames of a stream are longer over any network that carries IPv6.
const SHORT_BYTES: usize = 512;

/// A stream is cheaper in messages of several frames, which is how it is sent, and single frames are cheaper as datagrams, of which the kernel need not tell how
/// many they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intake {
    /// As messages; the last ones, so many, were not long.
    Messages { short: u32 },
    /// As datagrams.
    Datagrams,
}

impl Intake {
    pub(super) fn new() -> Self {
        Self::Messages { short: 0 }
    }

    /// The next message of `socket`, if one is there, which is put to `room`.
    ///
    /// # Errors
    /// When the socket is broken.
    pub(super) fn receive(
        &mut self,
        socket: &CoalescedSocket,
        room: &mut [u8],
    ) -> io::Result<Option<Message>> {
        let message = match self {
            Self::Messages { .. } => socket.receive(room)?,
            Self::Datagrams => socket.receive_datagram(room)?,
        };
        let is_long = message.map(|message| message.bytes > SHORT_BYTES);
        let coalesces = match (&mut *self, is_long) {
            (Self::Datagrams, Some(true)) => socket.coalesce(true),
            (Self::Datagrams, _) => return Ok(message),
            (Self::Messages { short }, Some(false)) => {
                *short = SHORT_MAX.min(*short + 1);
                return Ok(message);
            }
            (Self::Messages { short: SHORT_MAX.. }, None) => socket.coalesce(false),
            (Self::Messages { .. }, None) => return Ok(message),
            (Self::Messages { .. }, Some(true)) => true,
        };
        *self = if coalesces { Self::new() } else { Self::Datagrams };
        Ok(message)
    }
}

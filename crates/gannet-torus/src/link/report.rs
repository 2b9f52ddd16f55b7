//! What an end tells the other one of itself, in either form.

use gannet_wire::apelink::frame::{Head, Room};
use gannet_wire::apelink::{Credit, NEXT_MODULUS, Used, VIRTUAL_CHANNELS};

use super::config::{Config, Form};

/// What a credit word and the head of a frame both say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Report {
    /// What is free, by virtual channel.
    pub room: [Room; VIRTUAL_CHANNELS],
    /// Bits for the fault monitor.
    pub diagnostics: u16,
    /// Sequence number that is expected next.
    pub next: u32,
    /// Session of the sender.
    pub session: u32,
    /// Session of the other end as the sender knows it, 0 if it does not.
    pub echo: u32,
    /// Packets from `next` on have to be sent again.
    pub resend: bool,
}

impl Report {
    /// The credit that says this on a link like `config`.
    pub(super) fn to_credit(self, config: &Config) -> Credit {
        let mut used = [Used::default(); VIRTUAL_CHANNELS];
        for (used, room) in used.iter_mut().zip(self.room).take(config.virtual_channels) {
            used.data = (config.fifo_words - room.words as usize) as u16;
            used.headers = (config.fifo_headers - room.headers as usize) as u16;
        }
        Credit {
            used,
            diagnostics: self.diagnostics,
            next: (self.next % NEXT_MODULUS) as u16,
            session: self.session as u8,
            echo: self.echo as u8,
            resend: self.resend,
        }
    }

    /// What `credit` says on a link like `config` of which packets from `base` on are not yet
    /// acknowledged.
    pub(super) fn of_credit(credit: &Credit, config: &Config, base: u32) -> Self {
        let room = credit.used.map(|used| Room {
            words: config.fifo_words.saturating_sub(used.data.into()) as u32,
            headers: config.fifo_headers.saturating_sub(used.headers.into()) as u32,
        });
        let ahead = u32::from(credit.next).wrapping_sub(base) % NEXT_MODULUS;
        Self {
            room,
            diagnostics: credit.diagnostics,
            next: base.wrapping_add(ahead),
            session: credit.session.into(),
            echo: credit.echo.into(),
            resend: credit.resend,
        }
    }

    /// The head of a frame of `packets` that says this on a link like `config`, and asks for an answer or not.
    #[inline]
    pub(super) fn to_head(self, config: &Config, packets: u16, asks: bool) -> Head {
        let frame_bytes = match config.form {
            Form::Words => 0,
            Form::Frames { bytes } => bytes as u32,
        };
        Head {
            resend: self.resend,
            asks,
            virtual_channels: config.virtual_channels as u8,
            packets,
            session: self.session,
            echo: self.echo,
            next: self.next,
            diagnostics: self.diagnostics,
            room: self.room,
            frame_bytes,
        }
    }

    /// What the head of a frame says.
    #[inline]
    pub(super) fn of_head(head: &Head) -> Self {
        let &Head { room, diagnostics, next, session, echo, resend, .. } = head;
        Self { room, diagnostics, next, session, echo, resend }
    }
}

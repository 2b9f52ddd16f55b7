//! How endpoints meet: both say hello, and both prove that they may join, before anything else is told.
//!
//! Each side draws a nonce and sends it with its hello. Its proof is a code (HMAC-SHA-256) under the secret
//! that both know of its side, its hello and the other one's, so that no proof can be used again, or sent
//! back. Without a secret only processes of one user on one host may join, which the kernel tells.

use std::io;
use std::time::Duration;

use gannet_wire::exchange::{Message, PIECE_LEN};
use hmac::{Hmac, KeyInit, Mac};
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::Sha256;
use thiserror::Error;

/// Which side of an exchange an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// It was connected to.
    Accepting,
    /// It has connected.
    Connecting,
}

/// Why endpoints cannot join.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The operating system refuses it, or the other side does not answer in time.
    #[error("cannot reach the other endpoint: {0}")]
    System(#[from] io::Error),
    /// The other side sends what is no message.
    #[error("the other side is no endpoint of this version: {0}")]
    Message(#[from] gannet_wire::Error),
    /// The other side sends a message out of turn.
    #[error("the other side sent \"{0}\" out of turn")]
    Turn(Message),
    /// The other side went away.
    #[error("the other side closed the connection; it may know another secret, or see its log")]
    Closed,
    /// The other side is of another user.
    #[error("the other side is of user {0}; give both the same secret")]
    User(u32),
    /// The other side does not know the secret.
    #[error("the other side does not know the secret, or has one and this side has none")]
    Secret,
    /// The secret of this side can be guessed.
    #[error("the secret has {0} bytes; give both sides the same one of 16 bytes or more")]
    ShortSecret(usize),
    /// Over a network nobody can tell the user of the other side.
    #[error("processes of two hosts need a secret: give both sides the same one")]
    NoSecret,
    /// The other side says what is no address of the backend.
    #[error("the other side tells no address that this one can reach")]
    Address,
    /// The other side is of another backend.
    #[error("the other side is of backend {there}, this one of {here}; choose one for both")]
    Backend {
        /// Number of this side's.
        here: u32,
        /// Number of the other side's.
        there: u32,
    },
    /// As many endpoints are joined as may be.
    #[error("{0} endpoints are joined; let one leave or allow more")]
    TooMany(usize),
    /// Shared memory of the other side cannot be used.
    #[error(transparent)]
    Attach(#[from] gannet_memory::AttachError),
    /// Shared memory of this side cannot be had.
    #[error(transparent)]
    Region(#[from] gannet_memory::RegionError),
    /// The node of the torus that this side uses refuses, or there is none.
    #[error("{0}")]
    Node(Box<crate::torus::user::UserError>),
    /// The node of this host has no place in a machine.
    #[error(
        "the node of this host is in no machine yet; see what is missing by `gannet torus status`"
    )]
    NoMachine,
    /// The torus does not get to the other side.
    #[error("the torus does not reach the other side: {0}; are both hosts in one machine?")]
    Torus(gannet_wire::torus_user::Outcome),
    /// There is no provider of libfabric for the other side.
    #[error(transparent)]
    Provider(#[from] crate::ofi::provider::ChooseError),
    /// The provider of libfabric refuses.
    #[error(transparent)]
    Call(#[from] crate::ofi::CallError),
    /// The provider of libfabric cannot join endpoints of one process.
    #[error(
        "provider {provider} of this libfabric fails between endpoints of one process; take the backend shm for them"
    )]
    OneProcess {
        /// Its name.
        provider: String,
    },
    /// The provider of libfabric does not get there.
    #[error(
        "provider {provider} of libfabric takes what is written, and none of it came within the deadline, there or here; choose another one"
    )]
    Undelivered {
        /// Its name.
        provider: String,
    },
}

impl From<crate::torus::user::UserError> for JoinError {
    fn from(error: crate::torus::user::UserError) -> Self {
        Self::Node(Box::new(error))
    }
}

/// A connection that carries messages whole and in order.
pub trait Carrier {
    /// Sends a message.
    ///
    /// # Errors
    /// When the connection is gone, or takes nothing for longer than its patience.
    fn send(&mut self, message: &Message) -> Result<(), JoinError>;

    /// Waits for a message.
    ///
    /// # Errors
    /// When none comes in time, or what comes is none.
    fn receive(&mut self) -> Result<Message, JoinError>;
}

/// What the other side said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Time after which it gives this side up.
    pub deadline: Duration,
}

/// Meets the other side: both prove to know the `key` ([`crate::Trust::key`]).
///
/// # Errors
/// When the other side is of another backend or version, does not know the secret, or does not answer.
pub fn meet(
    carrier: &mut impl Carrier,
    side: Side,
    key: &[u8],
    backend: u32,
    deadline: Duration,
) -> Result<Joined, JoinError> {
    let mut nonce = [0; 32];
    getrandom(&mut nonce, GetRandomFlags::empty()).map_err(io::Error::from)?;
    let deadline_ms = u32::try_from(deadline.as_millis()).unwrap_or(u32::MAX);
    let hello = Message::Hello { nonce, backend, deadline_ms };
    carrier.send(&hello)?;
    let theirs = carrier.receive()?;
    let Message::Hello { backend: there, deadline_ms, .. } = theirs else {
        return Err(JoinError::Turn(theirs));
    };
    if there != backend {
        return Err(JoinError::Backend { here: backend, there });
    }
    let code = code(key, side, &hello, &theirs).finalize().into_bytes().into();
    carrier.send(&Message::Proof { code })?;
    let proof = carrier.receive()?;
    let Message::Proof { code: got } = proof else { return Err(JoinError::Turn(proof)) };
    let other = match side {
        Side::Accepting => Side::Connecting,
        Side::Connecting => Side::Accepting,
    };
    let expected = self::code(key, other, &theirs, &hello);
    expected.verify_slice(&got).map_err(|_| JoinError::Secret)?;
    Ok(Joined { deadline: Duration::from_millis(deadline_ms.into()) })
}

/// Most bytes of an address.
pub const ADDRESS_MAX: usize = 256;

/// Tells the other side the address, in the words of the backend, at which this one takes data.
///
/// # Errors
/// When the connection does not take it.
///
/// # Panics
/// When the address has no bytes, or more than [`ADDRESS_MAX`].
pub fn tell_address(carrier: &mut impl Carrier, address: &[u8]) -> Result<(), JoinError> {
    assert!((1..=ADDRESS_MAX).contains(&address.len()), "an address of {} bytes", address.len());
    for (number, bytes) in address.chunks(PIECE_LEN).enumerate() {
        let mut piece = [0; PIECE_LEN];
        piece[..bytes.len()].copy_from_slice(bytes);
        let (bytes, place) = (address.len() as u32, (number * PIECE_LEN) as u32);
        carrier.send(&Message::Address { bytes, place, piece })?;
    }
    Ok(())
}

/// Waits for the address of the other side, at most [`ADDRESS_MAX`] bytes.
///
/// # Errors
/// When something else comes, or nothing in time.
pub fn hear_address(carrier: &mut impl Carrier) -> Result<Vec<u8>, JoinError> {
    let mut address = Vec::new();
    loop {
        let message = carrier.receive()?;
        let Message::Address { bytes, place, piece } = message else {
            return Err(JoinError::Turn(message));
        };
        let whole = bytes as usize;
        if !(1..=ADDRESS_MAX).contains(&whole) || place as usize != address.len() {
            return Err(JoinError::Turn(message));
        }
        address.extend_from_slice(&piece[..PIECE_LEN.min(whole.saturating_sub(address.len()))]);
        if address.len() >= whole {
            return Ok(address);
        }
    }
}

/// The code by which `side` proves that it knows the key.
fn code(key: &[u8], side: Side, own: &Message, other: &Message) -> Hmac<Sha256> {
    // HMAC takes keys of any length.
    let mut code = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    code.update(match side {
        Side::Accepting => b"accepting",
        Side::Connecting => b"connecting",
    });
    code.update(&own.to_bytes());
    code.update(&other.to_bytes());
    code
}

//! The socket between two endpoints of one host: messages, and descriptors of memory with them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gannet_wire::exchange::{LEN, Message};
use gannet_wire::record::Record;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::exchange::{Carrier, JoinError};

/// A connected socket that keeps messages apart (`SOCK_SEQPACKET`).
#[derive(Debug)]
pub(super) struct Line(OwnedFd);

/// What came over a line.
pub(super) type Received = (Message, Option<OwnedFd>);

impl Line {
    /// Takes a socket whose calls wait no longer than `patience`.
    pub fn new(socket: OwnedFd, patience: Duration) -> io::Result<Self> {
        use sockopt::{Timeout, set_socket_timeout};
        set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        Ok(Self(socket))
    }

    /// The user of the process at the other end.
    pub fn user(&self) -> io::Result<u32> {
        Ok(sockopt::socket_peercred(&self.0)?.uid.as_raw())
    }

    /// Sends a message, and a descriptor with it; gives whether it was taken. With `wait` it is, or fails.
    pub fn send(
        &self,
        message: &Message,
        descriptor: Option<BorrowedFd<'_>>,
        wait: bool,
    ) -> io::Result<bool> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let descriptors: &[_] = descriptor.as_slice();
        if !descriptors.is_empty() {
            ancillary.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags =
            if wait { SendFlags::NOSIGNAL } else { SendFlags::NOSIGNAL | SendFlags::DONTWAIT };
        loop {
            let bytes = message.to_bytes();
            match sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !wait => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives a message and the descriptor with it; `None` when the other end is closed, and, without
    /// `wait`, [`io::ErrorKind::WouldBlock`] when there is none.
    pub fn receive(&self, wait: bool) -> Result<Option<Received>, JoinError> {
        // One byte more than a message: what is longer is none.
        let mut bytes = [0; LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        flags.set(RecvFlags::DONTWAIT, !wait);
        let received = loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received.map_err(io::Error::from)?,
            }
        };
        // Descriptors that nobody takes are closed with the buffer.
        let mut descriptor = None;
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(mut descriptors) = message {
                descriptor = descriptors.next();
            }
        }
        match received.bytes {
            0 => Ok(None),
            length => {
                let length = if length == LEN { LEN } else { 0 };
                Ok(Some((Message::parse(&bytes[..length])?, descriptor)))
            }
        }
    }
}

impl Carrier for Line {
    fn send(&mut self, message: &Message) -> Result<(), JoinError> {
        Self::send(self, message, None, true)?;
        Ok(())
    }

    fn receive(&mut self) -> Result<Message, JoinError> {
        let received = Self::receive(self, true)?;
        received.map(|(message, _)| message).ok_or(JoinError::Closed)
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

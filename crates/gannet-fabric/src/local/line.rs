//! The socket between two processes of one host: messages, and descriptors of memory with them.

use std::io::{self, IoSlice, IoSliceMut};
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use gannet_wire::exchange::{self, Message};
use gannet_wire::record::Record;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg, sockopt,
};

use crate::exchange::{Carrier, JoinError};

/// Bytes of every message.
pub const MESSAGE_LEN: usize = exchange::LEN;

/// A connected socket that keeps messages apart (`SOCK_SEQPACKET`).
#[derive(Debug)]
pub struct Line<M = Message> {
    socket: OwnedFd,
    message: PhantomData<fn() -> M>,
}

impl<M: Record> Line<M> {
    /// Takes a socket whose calls wait no longer than `patience`.
    ///
    /// # Errors
    /// When it is no socket.
    pub fn new(socket: OwnedFd, patience: Duration) -> io::Result<Self> {
        use sockopt::{Timeout, set_socket_timeout};
        set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        const { assert!(M::LEN == MESSAGE_LEN, "messages are of one length") };
        Ok(Self { socket, message: PhantomData })
    }

    /// The user of the process at the other end.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn user(&self) -> io::Result<u32> {
        Ok(sockopt::socket_peercred(&self.socket)?.uid.as_raw())
    }

    /// Sends a message, and a descriptor with it; gives whether it was taken. With `wait` it is, or fails.
    ///
    /// # Errors
    /// When the other end is closed, or takes nothing for longer than the patience.
    pub fn send(
        &self,
        message: &M,
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
        let mut bytes = [0; MESSAGE_LEN];
        message.emit(&mut bytes);
        loop {
            match sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut ancillary, flags) {
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !wait => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Receives a message and the descriptor with it; `None` when the other end is closed, and, without
    /// `wait`, [`io::ErrorKind::WouldBlock`] when there is none.
    ///
    /// # Errors
    /// When what comes is no message, or nothing comes in time.
    pub fn receive(&self, wait: bool) -> Result<Option<(M, Option<OwnedFd>)>, JoinError> {
        // One byte more than a message: what is longer is none.
        let mut bytes = [0; MESSAGE_LEN + 1];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut flags = RecvFlags::CMSG_CLOEXEC;
        flags.set(RecvFlags::DONTWAIT, !wait);
        let received = loop {
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags) {
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
                let length = if length == MESSAGE_LEN { length } else { 0 };
                Ok(Some((M::parse(&bytes[..length])?, descriptor)))
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

impl<M> AsFd for Line<M> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

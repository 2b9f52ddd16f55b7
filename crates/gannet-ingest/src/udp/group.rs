//! What the sockets of one address have in common.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use libc::sock_filter;

use crate::Error;
use crate::sys::socket::Socket;
use crate::udp::drops::read_proc;

/// The sockets of one address.
#[derive(Debug)]
pub(super) struct Group {
    bound: Mutex<Bound>,
    shares_address: bool,
    /// Chooses a socket for each message; the kernel chooses by the sender without it.
    program: Option<Vec<sock_filter>>,
    parted: AtomicBool,
}

/// The sockets that have their port.
#[derive(Debug, Default)]
struct Bound {
    /// Address of the first: if any port will do, its port becomes that of all.
    address: Option<SocketAddr>,
    /// In their order, which is also that of the program. None is closed before the last source of
    /// the group is gone: the kernel would give its place to another.
    sockets: Vec<Arc<Socket>>,
    /// They refuse all that comes.
    is_closed: bool,
}

impl Group {
    pub(super) fn new(shares_address: bool, program: Option<Vec<sock_filter>>) -> Self {
        Self { bound: Mutex::default(), shares_address, program, parted: AtomicBool::new(false) }
    }

    /// Binds the next socket of the group and returns its address.
    pub(super) fn bind(
        &self,
        socket: &Arc<Socket>,
        wanted: SocketAddr,
    ) -> Result<SocketAddr, Error> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        let address = bound.address.unwrap_or(wanted);
        let failed = |what| Error::socket(what, address);
        // The first one shares its address from afterwards: so it is refused when another program
        // has the address, even one that would share it.
        if bound.address.is_some() {
            socket.share_address().map_err(failed("share"))?;
        }
        socket.bind(&address).map_err(failed("bind"))?;
        match (&self.program, bound.address) {
            (_, None) if self.shares_address => socket.share_address().map_err(failed("share"))?,
            (Some(program), Some(_)) => {
                socket.choose_by(program).map_err(failed("spread streams over"))?;
            }
            _ => {}
        }
        let address = socket.local_address().map_err(failed("ask the port of"))?;
        bound.address = Some(address);
        bound.sockets.push(Arc::clone(socket));
        Ok(address)
    }

    /// Has all sockets of a shared address refuse datagrams from now on. Once one of them is shut, the
    /// kernel no longer asks the program, and what is for one socket would come to another.
    pub(super) fn close(&self) -> io::Result<()> {
        let mut bound = self.bound.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.shares_address || std::mem::replace(&mut bound.is_closed, true) {
            return Ok(());
        }
        bound.sockets.iter().try_for_each(|socket| {
            let drops = match socket.queue() {
                Ok(queue) => queue.drops,
                Err(_) => socket.inode().ok().and_then(read_proc).unwrap_or(0),
            };
            socket.close(drops)
        })
    }

    /// Has every socket take datagrams one by one from now on.
    pub(super) fn part(&self) {
        if !self.parted.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "frames of streams of several sockets came in one message; datagrams are taken one \
                 by one from now on"
            );
        }
    }

    /// Whether datagrams are to be taken one by one.
    pub(super) fn is_parted(&self) -> bool {
        self.parted.load(Ordering::Relaxed)
    }
}

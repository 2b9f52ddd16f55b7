//! The thread that serves.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::run::Present;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::access::Access;
use crate::commands::{Commands, Peer};
use crate::connection;
use crate::events::Onlookers;
use crate::limits::{
    ACCEPT_PAUSE, ACCEPTS_PER_S, BACKLOG, CONNECTIONS_MAX, SOCKET_BYTES, STOP_TIME, connections,
};
use crate::log::LogTail;
use crate::pace::Pace;
use crate::places::Places;
use crate::site::{Content, Site};
use crate::tls::Tls;

/// The answer to a connection that is one too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
    Content-Length: 21\r\nRetry-After: 5\r\nConnection: close\r\n\r\ntoo many connections\n";

/// Least time between two warnings that connections cannot be accepted.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Pause after the accepting task has failed by an internal error.
const DEFECT_PAUSE: Duration = Duration::from_secs(1);

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be had.
    #[error("cannot listen on {address}: {cause}; choose another address{}", proposal(.free))]
    Address {
        /// Address asked for.
        address: SocketAddr,
        /// One that is free, with the same host.
        free: Option<SocketAddr>,
        /// What went wrong.
        #[source]
        cause: io::Error,
    },
    /// The system gives no thread or no event queue.
    #[error("cannot start the HTTP server: {0}")]
    System(#[source] io::Error),
}

/// The runtime of a server: all on the thread that runs it.
pub(crate) fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// An address with another port that can be had.
fn free(address: SocketAddr) -> Option<SocketAddr> {
    std::net::TcpListener::bind((address.ip(), 0)).and_then(|it| it.local_addr()).ok()
}

fn proposal(free: &Option<SocketAddr>) -> String {
    free.map(|free| format!("; {free} is free")).unwrap_or_default()
}

/// An address that is listened on. Clients wait until it [serves](Self::serve).
pub struct Listener {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    access: Access,
    commands: Commands,
    log: Option<&'static LogTail>,
    tls: Option<Tls>,
    clients_max: usize,
}

impl Listener {
    /// Listens on `address`, for those who have `access`.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn open(address: SocketAddr, access: Access) -> Result<Self, Error> {
        let runtime = runtime().map_err(Error::System)?;
        let listen = || {
            let _entered = runtime.enter();
            let socket = match address {
                SocketAddr::V4(_) => TcpSocket::new_v4(),
                SocketAddr::V6(_) => TcpSocket::new_v6(),
            }?;
            socket.set_reuseaddr(true)?;
            // Connections inherit these.
            socket.set_send_buffer_size(SOCKET_BYTES)?;
            socket.set_recv_buffer_size(SOCKET_BYTES)?;
            socket.bind(address)?;
            let listener = socket.listen(BACKLOG)?;
            Ok((listener.local_addr()?, listener))
        };
        let (bound, listener) =
            listen().map_err(|cause| Error::Address { address, free: free(address), cause })?;
        let commands = Commands::default();
        Ok(Self {
            runtime,
            listener,
            address: bound,
            access,
            commands,
            log: None,
            tls: None,
            clients_max: CONNECTIONS_MAX,
        })
    }

    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes `commands` when it serves.
    #[must_use]
    pub fn taking(self, commands: Commands) -> Self {
        Self { commands, ..self }
    }

    /// Serves nothing in the clear.
    #[must_use]
    pub fn secured(self, tls: Tls) -> Self {
        Self { tls: Some(tls), ..self }
    }

    /// Has so many connections at a time at most.
    #[must_use]
    pub fn admitting(self, clients_max: usize) -> Self {
        Self { clients_max, ..self }
    }

    /// Shows the last lines of the log.
    #[must_use]
    pub fn showing(self, log: &'static LogTail) -> Self {
        Self { log: Some(log), ..self }
    }

    /// Serves the `content` of the `present` run, and of those that follow, on a thread of its own.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn serve(self, present: impl Into<Present>, content: Content) -> Result<Server, Error> {
        let Self { runtime, listener, address, access, commands, log, tls, clients_max } = self;
        let stop = Arc::<Notify>::default();
        let stopped = Arc::clone(&stop);
        let (alive, ended) = mpsc::channel::<()>();
        let site = Site::with_commands(present, access, content, commands, log);
        let onlookers = Arc::clone(&site.onlookers);
        let (listener, places) =
            (Arc::new(listener), Arc::new(Places::new(connections(clients_max))));
        let work = move || {
            let _alive = alive;
            runtime.block_on(async {
                tokio::spawn(supervise(listener, site, tls, places));
                stopped.notified().await;
            });
            // Whatever is being sent or received is dropped, not waited for.
            runtime.shutdown_background();
        };
        thread::Builder::new().name("gannet-web".into()).spawn(work).map_err(Error::System)?;
        Ok(Server { address, onlookers, stop, ended: Some(ended) })
    }
}

/// A run that is being served, until this is dropped.
pub struct Server {
    address: SocketAddr,
    onlookers: Arc<Onlookers>,
    stop: Arc<Notify>,
    ended: Option<mpsc::Receiver<()>>,
}

impl Server {
    /// Address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many browsers, or other clients, are told of each change at the moment.
    pub fn onlookers(&self) -> usize {
        self.onlookers.count()
    }

    /// Stops serving, as dropping it does. No client is waited for; the thread, for [`STOP_TIME`]
    /// at most. Whether it has ended then: only a snapshot that hangs can keep it.
    pub fn stop(mut self) -> bool {
        self.end()
    }

    fn end(&mut self) -> bool {
        // Only the first call waits.
        let Some(ended) = self.ended.take() else { return true };
        self.stop.notify_one();
        ended.recv_timeout(STOP_TIME) == Err(RecvTimeoutError::Disconnected)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.end() {
            tracing::warn!("HTTP: the server hangs and is left behind");
        }
    }
}

/// Accepts connections for as long as the runtime lives, whatever happens.
async fn supervise(listener: Arc<TcpListener>, site: Site, tls: Option<Tls>, places: Arc<Places>) {
    loop {
        let accepting = tokio::spawn(accept(
            Arc::clone(&listener),
            site.clone(),
            tls.clone(),
            Arc::clone(&places),
        ));
        let defect = accepting.await;
        tracing::error!(?defect, "HTTP: internal error; please report it. The run is not affected");
        sleep(DEFECT_PAUSE).await;
    }
}

/// Accepts connections, as many as there may be, and refuses the others.
async fn accept(listener: Arc<TcpListener>, site: Site, tls: Option<Tls>, places: Arc<Places>) {
    let pace = Pace::new(ACCEPTS_PER_S);
    let mut warned = None;
    loop {
        pace.take(1).await;
        match listener.accept().await {
            Ok((stream, client)) => match places.take(client.ip()) {
                Some(place) => {
                    let serving =
                        connection::serve(stream, tls.clone(), site.router_for(Peer(client)));
                    tokio::spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                None if tls.is_none() => refuse(stream),
                // One who expects TLS is told by the end of the connection.
                None => drop(stream),
            },
            Err(error) => {
                if warned.is_none_or(|at: Instant| at.elapsed() > WARNING_INTERVAL) {
                    warned = Some(Instant::now());
                    tracing::warn!(%error, "HTTP: cannot accept connections; trying on");
                }
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Says that there are too many connections, as far as the kernel takes it at once.
fn refuse(stream: TcpStream) {
    if let Ok(mut stream) = stream.into_std() {
        let _as_it_may_be = stream.write(FULL);
    }
}

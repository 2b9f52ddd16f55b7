//! One connection, from its first byte to its end.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use crate::limits::{ANSWER_BYTES_MIN, ANSWER_TIME, HEADER_BYTES_MAX, REQUEST_TIME};
use crate::tls::Tls;

/// Answers the requests of a client with `router`, in secret if there is `tls`, until it leaves, breaks a rule, or is
/// too slow.
pub(crate) async fn serve<I>(io: I, tls: Option<Tls>, router: Router)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = Attended { io, wait: None };
    match tls {
        None => converse(io, router).await,
        Some(tls) => match tls.accept(io).await {
            Ok(io) => converse(io, router).await,
            Err(error) => tracing::debug!(%error, "a client did not agree on TLS"),
        },
    }
}

async fn converse<I>(io: I, router: Router)
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_TIME)
        .max_buf_size(HEADER_BYTES_MAX)
        .half_close(true)
        .serve_connection(TokioIo::new(io), TowerToHyperService::new(router));
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection ended");
    }
}

/// A stream whose peer must take what is written to it: otherwise writing fails.
struct Attended<I> {
    io: I,
    /// While something waits to be taken.
    wait: Option<Wait>,
}

struct Wait {
    deadline: Pin<Box<Sleep>>,
    taken: usize,
}

impl<I> Attended<I> {
    /// Judges the outcome of an attempt to write `offered` bytes.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Ok(count)) => {
                let taken = self.wait.as_ref().map_or(0, |wait| wait.taken) + count;
                if count == offered || taken >= ANSWER_BYTES_MIN {
                    self.wait = None;
                } else if let Some(wait) = &mut self.wait {
                    wait.taken = taken;
                }
                written
            }
            Poll::Ready(Err(_)) => written,
            Poll::Pending => {
                let begin = || Wait { deadline: Box::pin(sleep(ANSWER_TIME)), taken: 0 };
                let wait = self.wait.get_or_insert_with(begin);
                let slow = || io::Error::new(io::ErrorKind::TimedOut, "the client does not read");
                wait.deadline.as_mut().poll(context).map(|()| Err(slow()))
            }
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for Attended<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(context, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for Attended<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(context, bytes);
        self.judge(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(context, slices);
        self.judge(context, slices.iter().map(|slice| slice.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

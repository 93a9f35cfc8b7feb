//! One connection: HTTP/1.1 or HTTP/2, whichever the client speaks, until it ends, stalls, or the server stops.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::Response;
use http::{Request, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use objects::{Memory, Party};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutWriter;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::sending::{OWN_BYTES, Sending, SendingBody};
use crate::config::LimitsConfig;
use crate::telemetry::OpenConnection;

/// Bytes of a request's head, and of what is buffered of a response. A URL of hyper's is at most 64 KiB, so a long list of ids
/// in a URL gets as far on HTTP/2 as on HTTP/1.1.
const HEAD_BYTES_MAX: u32 = 128 << 10;

/// Bytes of a response that one HTTP/2 stream may hold for its client. Small, since there may be many streams.
const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client may send ahead of whoever reads them, on a stream and on all streams of a connection. They are no part of
/// `limits.memory`; a body that waits for its share of that is not read, so that no more than this of it comes.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 512 << 10;

/// The part of `limits.memory` that is the budget for what is on its way to clients: one of so many.
const SENDING_ONE_OF: u64 = 4;

/// How often a quiet HTTP/2 connection is asked whether it is alive, and how long it may take to say so.
const HTTP2_PING: Duration = Duration::from_secs(20);

/// Where a request came from: an extension of each request that came over a network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: IpAddr,
    /// Whether it came to a listener that only this machine can reach.
    pub(crate) on_loopback: bool,
}

/// How connections are served; the same for all listeners.
#[derive(Clone)]
pub(crate) struct Connections {
    http: Builder<TokioExecutor>,
    limits: Arc<LimitsConfig>,
    /// For what is on its way to clients.
    budget: Memory,
    /// Finish what is under way, take nothing new.
    pub(crate) stop: CancellationToken,
    /// End now.
    pub(crate) cut: CancellationToken,
}

impl Connections {
    pub(crate) fn new(limits: LimitsConfig) -> Self {
        let mut http = Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            // Some old clients compare names of fields as they are commonly written.
            .title_case_headers(true)
            .max_buf_size(HEAD_BYTES_MAX as usize);
        http.http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(HTTP2_PING)
            .keep_alive_timeout(HTTP2_PING)
            .max_concurrent_streams(limits.http2_streams)
            .max_send_buf_size(HTTP2_SEND_BYTES_MAX)
            .initial_stream_window_size(HTTP2_STREAM_WINDOW_BYTES)
            .initial_connection_window_size(HTTP2_CONNECTION_WINDOW_BYTES)
            .max_header_list_size(HEAD_BYTES_MAX);
        let (stop, cut) = (CancellationToken::new(), CancellationToken::new());
        let budget = Memory::new(limits.memory / SENDING_ONE_OF);
        Self { http, limits: Arc::new(limits), budget, stop, cut }
    }

    pub(crate) fn limits(&self) -> &LimitsConfig {
        &self.limits
    }

    /// Serves `io` until it ends. Errors of a connection are the client's affair and are logged for those who look for them.
    pub(crate) async fn serve<I>(&self, io: I, peer: Option<Peer>, router: Router)
    where
        I: AsyncRead + AsyncWrite + Send + 'static,
    {
        let _open = OpenConnection::begin();
        let mut io = TimeoutWriter::new(io);
        io.set_timeout(Some(self.limits.stall));
        let asked = Arc::new(Requests::default());
        let party = peer.map_or(Party::Local, |peer| Party::of_address(peer.address));
        let service = hyper::service::service_fn({
            let (asked, budget, stall) = (asked.clone(), self.budget.clone(), self.limits.stall);
            move |request: Request<Incoming>| {
                let is_http2 = request.version() == Version::HTTP_2;
                asked.begin(is_http2);
                let sending = Sending {
                    budget: budget.clone(),
                    party: party.clone(),
                    stall: is_http2.then_some(stall),
                    running: asked.running.clone(),
                    taken: asked.taken.clone(),
                };
                respond(router.clone(), request, peer, sending)
            }
        });
        let mut connection = pin!(self.http.serve_connection(TokioIo::new(Box::pin(io)), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = self.cut.cancelled() => return,
            () = asked.none_for(self.limits.header_time) => match asked.were_some() {
                true => None,
                false => return,
            },
            () = self.stop.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = self.cut.cancelled() => return,
                    () = asked.stalled_for(self.limits.stall) => return,
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// The requests of a connection.
#[derive(Default)]
struct Requests {
    begun: AtomicU64,
    over_http1: AtomicBool,
    /// Held by each whose response has not ended, and whose client has not stalled.
    running: Arc<()>,
    /// How many pieces of responses the client has taken.
    taken: Arc<AtomicU64>,
}

impl Requests {
    fn begin(&self, is_http2: bool) {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.over_http1.store(!is_http2, Ordering::Relaxed);
    }

    fn were_some(&self) -> bool {
        self.begun.load(Ordering::Relaxed) > 0
    }

    /// Returns once there were none for this time, or at most for twice as long: hyper-util waits without a bound for the first, to see
    /// which protocol it is, and hyper for another on HTTP/2. On HTTP/1.1 it does not.
    async fn none_for(&self, time: Duration) {
        let mut known = 0;
        loop {
            tokio::time::sleep(time).await;
            if self.over_http1.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            let begun = self.begun.load(Ordering::Relaxed);
            if begun == known && Arc::strong_count(&self.running) == 1 {
                return;
            }
            known = begun;
        }
    }

    /// Returns once nothing is left but what the client does not take: for this time, or at most for twice as long, it took nothing of
    /// responses that the server is done with. On HTTP/1.1 writing ends such a connection.
    async fn stalled_for(&self, time: Duration) {
        let mut known = self.taken.load(Ordering::Relaxed);
        loop {
            tokio::time::sleep(time).await;
            if self.over_http1.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            let taken = self.taken.load(Ordering::Relaxed);
            if taken == known && Arc::strong_count(&self.running) == 1 {
                return;
            }
            known = taken;
        }
    }
}

fn respond(
    router: Router,
    mut request: Request<Incoming>,
    peer: Option<Peer>,
    sending: Sending,
) -> impl Future<Output = Result<Response, Infallible>> {
    if let Some(peer) = peer {
        request.extensions_mut().insert(peer);
    }
    async move {
        let response = router.oneshot(request.map(Body::new)).await?;
        let is_small = response.body().size_hint().upper().is_some_and(|bytes| bytes <= OWN_BYTES as u64);
        // What is small is never held twice on HTTP/1.1, and its connection ends when it is not taken.
        Ok(if response.body().is_end_stream() || (is_small && sending.stall.is_none()) {
            response
        } else {
            response.map(|body| Body::new(SendingBody::new(body, sending)))
        })
    }
}

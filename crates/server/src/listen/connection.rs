//! HTTP on a connection: HTTP/1.1 or HTTP/2, until it ends, stalls, or the server stops.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use axum::body::Body;
use axum::response::Response;
use axum::{Extension, Router};
use budget::{Memory, Party, usable_memory};
use door_ldp::SeenAs;
use http::{HeaderValue, Request, Version, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_io_timeout::TimeoutWriter;
use tower::ServiceExt;

use super::accept::{Drain, Protocol};
use super::date;
use super::sending::{OWN_BYTES, Sending, SendingBody};
use crate::config::LimitsConfig;
use crate::live::Live;
use crate::local_user::LocalUser;
use crate::peer::Peer;
use crate::proxies::{Client, Proxies};
use crate::telemetry::OpenConnection;

/// Bytes of a request's head, and of the buffer of a response. hyper's limit of a URL is 64 KiB, so
/// a long list of ids in a URL can be as long on HTTP/2 as on HTTP/1.1.
const HEAD_BYTES_MAX: u32 = 128 << 10;

/// Bytes of a response that one HTTP/2 stream may hold for its client. Few, since there may be many
/// streams.
const HTTP2_SEND_BYTES_MAX: usize = 64 << 10;

/// Bytes that a client may send before they are read, on a stream and on all streams of a
/// connection. They do not count towards `limits.memory`. A body that waits for its share of that
/// memory is not read, so no more than this of it arrives.
const HTTP2_STREAM_WINDOW_BYTES: u32 = 256 << 10;
const HTTP2_CONNECTION_WINDOW_BYTES: u32 = 512 << 10;

/// How often an idle HTTP/2 connection is pinged, and how long the reply may take.
const HTTP2_PING: Duration = Duration::from_secs(20);

/// The settings of HTTP, the same for all listeners.
#[derive(Clone)]
pub(super) struct Http {
    live: Arc<Live>,
    /// For data on its way to clients.
    budget: Memory,
    proxies: Arc<Proxies>,
}

/// HTTP with the routes of a listener. [`Peer`] and [`SeenAs`] are extensions of each request that
/// came over a network; [`Malformed`](crate::proxies::Malformed) is one if its proxy made it so.
#[derive(Clone)]
pub(super) struct Routed {
    http: Http,
    router: Router,
    /// Whether the listener speaks TLS.
    encrypted: bool,
}

impl Http {
    pub(super) fn new(live: Arc<Live>, proxies: Arc<Proxies>) -> Self {
        let budget = Memory::new(live.limits().sending_bytes(usable_memory()));
        Self { live, budget, proxies }
    }

    /// The settings of a connection that begins.
    fn builder(limits: &LimitsConfig) -> Builder<TokioExecutor> {
        let mut http = Builder::new(TokioExecutor::new());
        http.http1()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.header_time)
            // Some old clients compare names of fields case-sensitively.
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
        http
    }

    /// The protocol of a listener with these routes.
    pub(super) fn with(&self, router: Router) -> Routed {
        Routed { http: self.clone(), router, encrypted: false }
    }

    /// The same for a listener that speaks TLS.
    pub(super) fn encrypted_with(&self, router: Router) -> Routed {
        Routed { encrypted: true, ..self.with(router) }
    }
}

impl Protocol for Routed {
    fn with_user(self, uid: Option<u32>) -> Self {
        let Some(uid) = uid else { return self };
        Self { router: self.router.layer(Extension(LocalUser(uid))), ..self }
    }

    /// Errors of a connection concern the client, and are logged at level debug.
    async fn serve<I>(self, io: I, peer: Option<Peer>, drain: Drain)
    where
        I: AsyncRead + AsyncWrite + Send + 'static,
    {
        let Self { http: Http { live, budget, proxies }, router, encrypted } = self;
        let limits = live.limits();
        let http = Http::builder(&limits);
        let _open = OpenConnection::begin();
        let mut io = TimeoutWriter::new(io);
        io.set_timeout(Some(limits.stall));
        let asked = Arc::new(Requests::default());
        let service = hyper::service::service_fn({
            let (asked, budget, stall) = (asked.clone(), budget, limits.stall);
            move |mut request: Request<Incoming>| {
                let is_http2 = request.version() == Version::HTTP_2;
                let party = peer.map_or(Party::Local, |peer| identify(&mut request, peer, encrypted, &proxies));
                asked.begin(is_http2);
                let sending = Sending {
                    budget: budget.clone(),
                    party,
                    stall: is_http2.then_some(stall),
                    running: asked.running.clone(),
                    taken: asked.taken.clone(),
                };
                respond(router.clone(), request, sending, live.clone())
            }
        });
        let mut connection = pin!(http.serve_connection(TokioIo::new(Box::pin(io)), service));
        let ended = tokio::select! {
            ended = connection.as_mut() => Some(ended),
            () = drain.cut.cancelled() => return,
            () = asked.none_for(limits.header_time) => match asked.were_some() {
                true => None,
                false => return,
            },
            () = drain.stop.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection => ended,
                    () = drain.cut.cancelled() => return,
                    () = asked.stalled_for(limits.stall) => return,
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
    /// Held by each response that has not ended and whose client has not stalled.
    running: Arc<()>,
    /// The number of pieces of responses that the client has taken.
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

    /// Returns once no request came for this time, or at most for twice as long. hyper-util waits
    /// without a bound for the first request, to see which protocol it is. On HTTP/2, hyper waits
    /// without a bound for another one.
    async fn none_for(&self, time: Duration) {
        self.still_for(time, 0, &self.begun).await;
    }

    /// Returns once all that is left are responses that the client does not take: for this time,
    /// or at most for twice as long, it took nothing of responses that the server has finished.
    async fn stalled_for(&self, time: Duration) {
        self.still_for(time, self.taken.load(Ordering::Relaxed), &self.taken).await;
    }

    /// Returns once no request is running and `counter` has not changed for this time, or at most
    /// for twice as long. On HTTP/1.1 it never returns: hyper bounds the wait for a request itself,
    /// and a write that times out ends a connection that stalls.
    async fn still_for(&self, time: Duration, mut known: u64, counter: &AtomicU64) {
        loop {
            tokio::time::sleep(time).await;
            if self.over_http1.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            let count = counter.load(Ordering::Relaxed);
            if count == known && Arc::strong_count(&self.running) == 1 {
                return;
            }
            known = count;
        }
    }
}

/// Finds out who asks, and marks the request with it. Returns the party of the address.
fn identify<B>(request: &mut Request<B>, peer: Peer, encrypted: bool, proxies: &Proxies) -> Party {
    let client = proxies.client(peer, request.headers()).unwrap_or_else(|malformed| {
        request.extensions_mut().insert(malformed);
        Client::default()
    });
    let peer = Peer { address: client.address.unwrap_or(peer.address), ..peer };
    let seen = SeenAs { encrypted: client.encrypted.unwrap_or(encrypted), host: client.host };
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(seen);
    Party::of_address(peer.address)
}

async fn respond(
    router: Router,
    request: Request<Incoming>,
    sending: Sending,
    live: Arc<Live>,
) -> Result<Response, Infallible> {
    let is_http2 = request.version() == Version::HTTP_2;
    let mut response = router.oneshot(request.map(Body::new)).await?;
    response.headers_mut().insert(header::DATE, date::of(SystemTime::now()));
    if live.is_draining() && !is_http2 {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    let is_small = response.body().size_hint().upper().is_some_and(|bytes| bytes <= OWN_BYTES as u64);
    // A small response is never held twice on HTTP/1.1, and its connection ends if it is not
    // taken.
    Ok(if response.body().is_end_stream() || (is_small && sending.stall.is_none()) {
        response
    } else {
        response.map(|body| Body::new(SendingBody::new(body, sending)))
    })
}

//! A client that takes nothing of its response is cut off, so that it stops costing anything.
//!
//! On HTTP/1.1 the connection's writes stop making progress, and [`tokio_io_timeout`] ends it. On HTTP/2 they need not: a client
//! may hold back one stream's window while the connection lives. There nobody asks the response's body for more, which
//! [`StallBody`] notices: it lets go of the body, and with it of all that the body holds.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// A response body that is dropped when nobody has asked for more of it for too long.
pub(crate) struct StallBody {
    shared: Arc<Mutex<Shared>>,
    _watch: AbortOnDropHandle<()>,
    _running: Arc<()>,
}

struct Shared {
    /// `None`: the client stalled and the body was let go.
    body: Option<Body>,
    /// Since when it is the client's turn; `None`: it is the server's.
    clients_turn_since: Option<Instant>,
}

impl StallBody {
    /// Guards `body`, and holds `running` until the response has ended; must be called within a runtime.
    pub(crate) fn new(body: Body, stall: Duration, running: Arc<()>) -> Self {
        let shared = Arc::new(Mutex::new(Shared { body: Some(body), clients_turn_since: Some(Instant::now()) }));
        let watch = AbortOnDropHandle::new(tokio::spawn(watch(shared.clone(), stall)));
        Self { shared, _watch: watch, _running: running }
    }
}

/// Waits until the client has stalled, and lets go of the body then.
async fn watch(shared: Arc<Mutex<Shared>>, stall: Duration) {
    loop {
        let since = shared.lock().clients_turn_since.unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + stall).await;
        let mut shared = shared.lock();
        if shared.clients_turn_since.is_some_and(|since| since.elapsed() >= stall) {
            shared.body = None;
            return;
        }
    }
}

impl HttpBody for StallBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut shared = self.shared.lock();
        let Some(body) = &mut shared.body else {
            return Poll::Ready(Some(Err("the client took nothing for too long".into())));
        };
        let polled = Pin::new(body).poll_frame(cx);
        shared.clients_turn_since = polled.is_ready().then(Instant::now);
        polled.map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.shared.lock().body.as_ref().is_some_and(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.shared.lock().body.as_ref().map(HttpBody::size_hint).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::StreamExt;
    use http_body_util::BodyExt;

    use super::*;

    const STALL: Duration = Duration::from_secs(60);

    /// Two pieces; the second takes its time.
    fn slow_body(pause: Duration) -> (Body, std::sync::Weak<()>) {
        let held = Arc::new(());
        let weak = Arc::downgrade(&held);
        let pieces = futures::stream::iter(["one", "two"]).then(move |piece| {
            let _held = held.clone();
            async move {
                tokio::time::sleep(pause).await;
                Ok::<_, BoxError>(Bytes::from(piece))
            }
        });
        (Body::from_stream(pieces), weak)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_asks_for_nothing_makes_the_body_go() {
        let (body, held) = slow_body(Duration::ZERO);
        let mut body = StallBody::new(body, STALL, Arc::default());
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::sleep(STALL - Duration::from_millis(10)).await;
        assert!(held.upgrade().is_some(), "let go too early");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(held.upgrade().is_none(), "still held");
        assert!(body.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_needs_long_is_not_the_clients_fault() {
        let (body, _held) = slow_body(3 * STALL);
        let whole = StallBody::new(body, STALL, Arc::default()).collect().await.unwrap().to_bytes();
        assert_eq!(whole, "onetwo");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_goes_on_is_left_alone() {
        let (body, _held) = slow_body(Duration::ZERO);
        let mut body = StallBody::new(body, STALL, Arc::default());
        tokio::time::sleep(STALL / 2).await;
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::sleep(STALL * 3 / 4).await;
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
    }
}

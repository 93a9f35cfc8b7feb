//! Data on its way to a client: how much of it the server holds, and for how long.
//!
//! hyper and h2 take pieces of a response from its body and hold them until the client takes them.
//! An HTTP/2 client may withhold the window of each stream for as long as its connection lives. So
//! each response may have a small amount on its way. More needs a share of a budget for all
//! responses, of which no address holds more than is still free.
//!
//! A client that takes nothing of its response is cut off, so that it costs nothing more. On
//! HTTP/1.1 the connection's writes make no progress, and [`tokio_io_timeout`] ends it. On HTTP/2
//! they may. There nothing polls the response's body, and [`SendingBody`] notices: it drops the
//! body, with everything that the body holds. Data that is on its way by then is freed only when
//! the connection ends.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use budget::{Memory, Party};
use bytes::Bytes;
use futures::task::AtomicWaker;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Bytes that each response may have on its way without a share of the budget.
pub(super) const OWN_BYTES: usize = 16 << 10;

/// The settings of all responses of a connection.
#[derive(Clone)]
pub(super) struct Sending {
    /// The budget for data on its way.
    pub(super) budget: Memory,
    /// The party whose share it is.
    pub(super) party: Party,
    /// How long the client may take nothing of a response; `None`: another mechanism handles that.
    pub(super) stall: Option<Duration>,
    /// Held by each response that has not ended, and whose client has not stalled.
    pub(super) running: Arc<()>,
    /// The number of pieces that the client has taken.
    pub(super) taken: Arc<AtomicU64>,
}

/// A response body with a bounded amount on its way. It is dropped if nothing polls it for too
/// long.
pub(super) struct SendingBody {
    shared: Arc<Mutex<Shared>>,
    budget: Memory,
    party: Party,
    on_its_way: Arc<OnItsWay>,
    _watch: Option<AbortOnDropHandle<()>>,
}

struct Shared {
    /// `None`: the client stalled, and the response was dropped.
    response: Option<Response>,
    /// Since when the server waits for the client; `None`: the client waits for the server.
    clients_turn_since: Option<Instant>,
}

struct Response {
    body: Body,
    /// Bytes from the body that are not on their way yet.
    rest: Bytes,
    _running: Arc<()>,
}

/// The data on its way without a share of the budget.
struct OnItsWay {
    own_bytes: AtomicUsize,
    /// The task that waits until there is none.
    waiting: AtomicWaker,
    taken: Arc<AtomicU64>,
}

/// A piece on its way; dropped when the client has taken it.
struct Piece {
    bytes: Bytes,
    own_bytes: usize,
    on_its_way: Arc<OnItsWay>,
    _share: Option<budget::Share>,
}

impl SendingBody {
    /// Bounds the data of `body` on its way. Must be called within a runtime.
    pub(super) fn new(body: Body, sending: Sending) -> Self {
        let Sending { budget, party, stall, running, taken } = sending;
        let response = Response { body, rest: Bytes::new(), _running: running };
        let shared = Shared { response: Some(response), clients_turn_since: Some(Instant::now()) };
        let shared = Arc::new(Mutex::new(shared));
        let watch = stall.map(|stall| AbortOnDropHandle::new(tokio::spawn(watch(shared.clone(), stall))));
        let on_its_way = Arc::new(OnItsWay { own_bytes: AtomicUsize::new(0), waiting: AtomicWaker::new(), taken });
        Self { shared, budget, party, on_its_way, _watch: watch }
    }

    /// Sends as much of `rest` as may be on its way now; `None`: nothing until the client has taken
    /// something.
    fn send(&self, rest: &mut Bytes, cx: &Context<'_>) -> Option<Bytes> {
        let on_its_way = self.on_its_way.clone();
        let own_bytes = on_its_way.own_bytes.load(Ordering::Acquire);
        let fits = rest.len() <= OWN_BYTES.saturating_sub(own_bytes);
        if !fits && let Ok(share) = self.budget.try_reserve(&self.party, rest.len() as u64) {
            let bytes = std::mem::take(rest);
            return Some(Bytes::from_owner(Piece { bytes, own_bytes: 0, on_its_way, _share: Some(share) }));
        }
        if !fits {
            on_its_way.waiting.register(cx.waker());
            if on_its_way.own_bytes.load(Ordering::Acquire) > 0 {
                return None;
            }
        }
        // A copy, because a slice of a large piece would keep all of it.
        let bytes = Bytes::copy_from_slice(&rest.split_to(rest.len().min(OWN_BYTES)));
        on_its_way.own_bytes.fetch_add(bytes.len(), Ordering::AcqRel);
        Some(Bytes::from_owner(Piece { own_bytes: bytes.len(), bytes, on_its_way, _share: None }))
    }
}

/// Waits until the client has stalled, and then drops the response.
async fn watch(shared: Arc<Mutex<Shared>>, stall: Duration) {
    loop {
        let since = shared.lock().clients_turn_since.unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + stall).await;
        let mut shared = shared.lock();
        if shared.clients_turn_since.is_some_and(|since| since.elapsed() >= stall) {
            shared.response = None;
            return;
        }
    }
}

impl HttpBody for SendingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut shared = self.shared.lock();
        let Shared { response, clients_turn_since } = &mut *shared;
        let Some(Response { body, rest, .. }) = response else {
            return Poll::Ready(Some(Err("the client took nothing for too long".into())));
        };
        if rest.is_empty() {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else {
                *clients_turn_since = None;
                return Poll::Pending;
            };
            *clients_turn_since = Some(Instant::now());
            match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => *rest = data,
                Some(Ok(Err(other))) => return Poll::Ready(Some(Ok(other))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        // While nothing may be sent, the server still waits for the client.
        let Some(piece) = self.send(rest, cx) else { return Poll::Pending };
        *clients_turn_since = Some(Instant::now());
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        let shared = self.shared.lock();
        shared.response.as_ref().is_some_and(|response| response.rest.is_empty() && response.body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let shared = self.shared.lock();
        let Some(Response { body, rest, .. }) = &shared.response else { return SizeHint::default() };
        let (of_body, rest) = (body.size_hint(), rest.len() as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(of_body.lower() + rest);
        if let Some(upper) = of_body.upper() {
            hint.set_upper(upper + rest);
        }
        hint
    }
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        self.on_its_way.taken.fetch_add(1, Ordering::Relaxed);
        self.on_its_way.own_bytes.fetch_sub(self.own_bytes, Ordering::AcqRel);
        self.on_its_way.waiting.wake();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::{FutureExt, StreamExt};
    use http_body_util::BodyExt;

    use super::*;

    const STALL: Duration = Duration::from_secs(60);

    fn sending(budget_bytes: u64) -> Sending {
        Sending {
            budget: Memory::new(budget_bytes),
            party: Party::Network([192, 0, 2, 1].into()),
            stall: Some(STALL),
            running: Arc::default(),
            taken: Arc::default(),
        }
    }

    /// Two pieces; the second comes late.
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

    /// Four pieces of 256 KiB.
    fn large_body() -> Body {
        let pieces = (0..4).map(|number| Ok::<_, BoxError>(Bytes::from(vec![number; 256 << 10])));
        Body::from_stream(futures::stream::iter(pieces))
    }

    #[tokio::test(start_paused = true)]
    async fn the_body_is_dropped_when_the_client_asks_for_nothing() {
        let (body, held) = slow_body(Duration::ZERO);
        let sending = sending(1 << 20);
        let running = sending.running.clone();
        let mut body = SendingBody::new(body, sending);
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::sleep(STALL - Duration::from_millis(10)).await;
        assert!(held.upgrade().is_some(), "dropped too early");
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(held.upgrade().is_none(), "still held");
        assert_eq!(Arc::strong_count(&running), 1, "it does not keep the connection");
        assert!(body.frame().await.unwrap().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_server_does_not_count_against_the_client() {
        let (body, _held) = slow_body(3 * STALL);
        let whole = SendingBody::new(body, sending(1 << 20)).collect().await.unwrap().to_bytes();
        assert_eq!(whole, "onetwo");
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_makes_progress_is_not_cut_off() {
        let (body, _held) = slow_body(Duration::ZERO);
        let mut body = SendingBody::new(body, sending(1 << 20));
        tokio::time::sleep(STALL / 2).await;
        assert!(body.frame().await.unwrap().is_ok());
        tokio::time::sleep(STALL * 3 / 4).await;
        assert!(body.frame().await.unwrap().is_ok());
        assert!(body.frame().await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_are_sent_as_long_as_there_is_a_share_for_them() {
        let sending = sending(512 << 10);
        let budget = sending.budget.clone();
        let mut body = SendingBody::new(large_body(), sending);
        let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((first.len(), budget.taken_bytes()), (256 << 10, 256 << 10));
        // Another share would be more than is then free for others.
        let own = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!((own.len(), budget.taken_bytes()), (OWN_BYTES, 256 << 10));
        assert!(body.frame().now_or_never().is_none(), "more than its own is on its way");
        drop(first);
        let rest = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(rest.len(), (256 << 10) - OWN_BYTES);
        drop(rest);
        assert_eq!(budget.taken_bytes(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_goes_on_without_any_share_and_ends_whole() {
        let sending = sending(0);
        let taken = sending.taken.clone();
        let whole = SendingBody::new(large_body(), sending).fold(Vec::new()).await;
        let expected: Vec<u8> = (0..4).flat_map(|number| vec![number; 256 << 10]).collect();
        assert!(whole == expected);
        assert_eq!(taken.load(Ordering::Relaxed), (1 << 20) / OWN_BYTES as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_is_dropped_when_the_client_takes_nothing() {
        let mut body = SendingBody::new(large_body(), sending(0));
        let held = body.frame().await.unwrap().unwrap();
        assert!(body.frame().now_or_never().is_none());
        tokio::time::sleep(STALL + Duration::from_millis(10)).await;
        assert!(body.frame().await.unwrap().is_err());
        assert!(body.shared.lock().response.is_none());
        drop(held);
    }

    /// Reads a body to its end, one piece after the other.
    trait Fold {
        async fn fold(self, whole: Vec<u8>) -> Vec<u8>;
    }

    impl Fold for SendingBody {
        async fn fold(mut self, mut whole: Vec<u8>) -> Vec<u8> {
            while let Some(frame) = self.frame().await {
                whole.extend_from_slice(&frame.unwrap().into_data().unwrap());
            }
            whole
        }
    }
}

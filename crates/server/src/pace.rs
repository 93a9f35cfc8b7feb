//! Limits how slowly the body of a request may arrive: a very slow one would hold memory and a
//! connection for as long as it likes.
//!
//! Only the time counts in which the server waits for more data. While it does not read, because it
//! writes data or waits for memory, the client cannot send.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use door_http::Reason;
use http::{HeaderValue, Version, header};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::{Instant, Sleep};

use crate::config::LimitsConfig;
use crate::linger::linger;
use crate::live::Live;
use crate::next::Next;
use crate::problem;

/// The least speed of a client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// The longest pause.
    pub(crate) pause: Duration,
    /// Bytes that must arrive within each `pause` of waiting.
    pub(crate) least_bytes: u64,
}

impl Pace {
    pub(crate) fn of(limits: &LimitsConfig) -> Self {
        let least_bytes = (limits.body_rate as f64 * limits.body_pause.as_secs_f64()) as u64;
        Self { pause: limits.body_pause, least_bytes }
    }
}

/// A layer: gives up a body that arrives too slowly, and responds with 408. The rest of a body
/// after an early response is read, up to a bound.
pub(crate) async fn keep(live: &Live, request: Request, next: impl Next) -> Response {
    if request.body().is_end_stream() {
        return next.run(request).await;
    }
    let pace = Pace::of(&live.limits());
    let (version, is_too_slow) = (request.version(), Arc::new(AtomicBool::new(false)));
    let paced = |body| Body::new(PacedBody::new(body, pace, is_too_slow.clone()));
    let response = linger(pace.pause, request.map(paced), next).await;
    if !is_too_slow.load(Ordering::Relaxed) || response.status().is_success() {
        return response;
    }
    let detail = format!(
        "the body arrived too slowly: at least {1} bytes must arrive in each {0:?} of waiting, and no pause may be longer",
        pace.pause,
        pace.least_bytes.max(1)
    );
    let mut response = problem::respond(Reason::TOO_SLOW, &detail);
    if version != Version::HTTP_2 {
        // RFC 9110, section 15.5.9.
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// A body that ends with an error if too little of it arrives.
struct PacedBody {
    /// `None`: it was too slow and was dropped.
    body: Option<Body>,
    pace: Pace,
    is_too_slow: Arc<AtomicBool>,
    /// Since when the server waits for the client; `None`: it does not wait.
    waiting_since: Option<Instant>,
    /// The time waited since counting began, and the bytes that arrived in it.
    waited: Duration,
    received_bytes: u64,
    alarm: Option<Pin<Box<Sleep>>>,
}

impl PacedBody {
    fn new(body: Body, pace: Pace, is_too_slow: Arc<AtomicBool>) -> Self {
        let (waited, received_bytes) = (Duration::ZERO, 0);
        Self { body: Some(body), pace, is_too_slow, waiting_since: None, waited, received_bytes, alarm: None }
    }

    /// Counts bytes that arrived. Returns false if they are too few.
    fn keeps_pace(&mut self, bytes: usize) -> bool {
        self.waited += self.waiting_since.take().map_or(Duration::ZERO, |since| since.elapsed());
        self.received_bytes += bytes as u64;
        if self.waited < self.pace.pause {
            return true;
        }
        let keeps_pace = self.received_bytes >= self.pace.least_bytes;
        (self.waited, self.received_bytes) = (Duration::ZERO, 0);
        keeps_pace
    }

    fn give_up(&mut self) -> BoxError {
        self.body = None;
        self.is_too_slow.store(true, Ordering::Relaxed);
        "the body arrived too slowly".into()
    }

    /// The time by which more data must arrive.
    fn deadline(&mut self) -> Instant {
        let since = *self.waiting_since.get_or_insert_with(Instant::now);
        let owes = self.received_bytes < self.pace.least_bytes;
        since + if owes { self.pace.pause.saturating_sub(self.waited) } else { self.pace.pause }
    }
}

impl HttpBody for PacedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        if let Poll::Ready(frame) = Pin::new(body).poll_frame(context) {
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            // A body that has ended cannot be late.
            return match this.keeps_pace(bytes) || frame.is_none() {
                true => Poll::Ready(frame.map(|frame| frame.map_err(Into::into))),
                false => Poll::Ready(Some(Err(this.give_up()))),
            };
        }
        let deadline = this.deadline();
        let alarm = this.alarm.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
        std::task::ready!(alarm.as_mut().poll(context));
        Poll::Ready(Some(Err(this.give_up())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::StreamExt;
    use http_body_util::BodyExt;

    use super::*;

    const PACE: Pace = Pace { pause: Duration::from_secs(30), least_bytes: 30 << 10 };

    /// Pieces of given sizes, each after a given pause.
    fn paced(pieces: Vec<(Duration, usize)>) -> PacedBody {
        let pieces = futures::stream::iter(pieces).then(|(pause, bytes)| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, BoxError>(Bytes::from(vec![0; bytes]))
        });
        PacedBody::new(Body::from_stream(pieces), PACE, Arc::default())
    }

    async fn taken(mut body: PacedBody) -> Result<usize, usize> {
        let mut bytes = 0;
        while let Some(frame) = body.frame().await {
            bytes += frame.map_err(|_| bytes)?.data_ref().map_or(0, Bytes::len);
        }
        Ok(bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_pauses_for_too_long_is_given_up() {
        let long = PACE.pause + Duration::from_secs(1);
        assert_eq!(taken(paced(vec![(Duration::ZERO, 1 << 20), (long, 1)])).await, Err(1 << 20));
        let most = PACE.pause - Duration::from_secs(1);
        assert_eq!(taken(paced(vec![(most, 100 << 10), (most, 100 << 10)])).await, Ok(200 << 10));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_slows_down_is_given_up() {
        let begun = Instant::now();
        let drops = || vec![(Duration::from_secs(10), 100); 100];
        assert_eq!(taken(paced(drops())).await, Err(200));
        assert_eq!(begun.elapsed(), PACE.pause);
        let mut pieces = vec![(Duration::from_secs(10), 1 << 20); 9];
        pieces.extend(drops());
        assert_eq!(taken(paced(pieces)).await, Err((9 << 20) + 200));
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_at_the_least_rate_is_accepted_however_long_it_takes() {
        assert_eq!(taken(paced(vec![(Duration::from_secs(1), 1 << 10); 1_000])).await, Ok(1_000 << 10));
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_server_does_not_read_does_not_count() {
        let mut body = paced(vec![(Duration::from_secs(5), 1); 3]);
        for _ in 0..3 {
            tokio::time::sleep(10 * PACE.pause).await;
            assert!(body.frame().await.unwrap().is_ok());
        }
        assert!(body.frame().await.is_none());
    }
}

//! Delivers a response that is sent before the end of its request.
//!
//! Over HTTP/1.1 the server closes the connection after a response that did not wait for the
//! request's body (such as 401 or 413). If more of the body arrives then, the server's system sends
//! a reset, and the client's system may drop the unread response. The client sees a broken pipe
//! instead of the reason. On HTTP/2 the stream is reset, and clients such as curl 7 then forget the
//! response. So the rest of the body is read, up to a bound, and discarded (RFC 9112, section 9.6,
//! recommends the like for servers that close).

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http::header;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::sync::oneshot;

/// The greatest number of discarded bytes. Receiving more costs too much for the sake of one error
/// message.
const LINGER_BYTES_MAX: usize = 64 << 20;

/// Reads the rest of a request's body for at most `time_max` after the response.
pub(crate) async fn linger(time_max: Duration, request: Request, next: Next) -> Response {
    // A client that expects 100 has sent nothing yet and waits for it.
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let (give_back, rest) = oneshot::channel();
    let lent = |body| Body::new(Lent { body: Some(body), give_back: Some(give_back) });
    let response = next.run(request.map(lent)).await;
    tokio::spawn(async move {
        if let Ok(rest) = rest.await {
            drop(tokio::time::timeout(time_max, drain(rest)).await);
        }
    });
    response
}

async fn drain(mut body: Body) {
    let mut taken_bytes = 0;
    while let Some(Ok(frame)) = body.frame().await {
        taken_bytes += frame.data_ref().map_or(0, Bytes::len);
        if taken_bytes > LINGER_BYTES_MAX {
            return;
        }
    }
}

/// A body that is given back when its reader drops it, unless it has ended.
struct Lent {
    /// `None` after it is given back.
    body: Option<Body>,
    give_back: Option<oneshot::Sender<Body>>,
}

impl HttpBody for Lent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let Some(body) = &mut this.body else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            this.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(|| SizeHint::with_exact(0), HttpBody::size_hint)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let (Some(body), Some(give_back)) = (self.body.take(), self.give_back.take())
            && !body.is_end_stream()
        {
            // Nobody receives it if the connection is gone.
            drop(give_back.send(body));
        }
    }
}

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
use axum::response::Response;
use bytes::Bytes;
use http::header;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio::runtime::Handle;

use crate::next::Next;

/// The greatest number of discarded bytes. Receiving more costs too much for the sake of one error
/// message.
const LINGER_BYTES_MAX: usize = 64 << 20;

/// Reads the rest of a request's body for at most `time_max` after nobody wants it any more.
pub(crate) async fn linger(time_max: Duration, request: Request, next: impl Next) -> Response {
    // A client that expects 100 has sent nothing yet and waits for it.
    if request.headers().contains_key(header::EXPECT) || request.body().is_end_stream() {
        return next.run(request).await;
    }
    let runtime = Handle::current();
    next.run(request.map(|body| Body::new(Lent { body: Some(body), time_max, runtime }))).await
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

/// A body whose rest is read when its reader drops it. Most bodies have ended by then, and cost no task.
struct Lent {
    /// `None` after it has ended.
    body: Option<Body>,
    time_max: Duration,
    /// Readers may be dropped on threads that are not of the runtime.
    runtime: Handle,
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
        if let Some(body) = self.body.take()
            && !body.is_end_stream()
        {
            let time_max = self.time_max;
            self.runtime.spawn(async move { drop(tokio::time::timeout(time_max, drain(body)).await) });
        }
    }
}

//! A response's body that something observes while it is sent.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// Sees what is taken of a body. It is dropped with the body.
pub(crate) trait Observer: Send + Unpin + 'static {
    /// A frame is taken, or an error; `None`: the body has ended. With `is_last`, nothing follows.
    fn taken(&mut self, frame: Option<Result<&Frame<Bytes>, &axum::Error>>, is_last: bool);
}

/// A body with its observer.
pub(crate) struct ObservedBody<O> {
    pub(crate) body: Body,
    pub(crate) observer: O,
}

/// The bytes of a frame.
pub(crate) fn bytes_of(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

impl<O: Observer> HttpBody for ObservedBody<O> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(frame) = &polled {
            this.observer.taken(frame.as_ref().map(Result::as_ref), this.body.is_end_stream());
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

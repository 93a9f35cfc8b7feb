//! Bodies of requests and responses, over any transport.

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};

/// A body. Errors while reading it are [`std::io::Error`]: with a boxed error the compiler could
/// not see that futures which await it may move between threads.
pub type Body = UnsyncBoxBody<Bytes, std::io::Error>;

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body that is in memory.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is made while it is sent.
pub fn stream(pieces: impl Stream<Item = std::io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map_ok(Frame::data)).boxed_unsync()
}

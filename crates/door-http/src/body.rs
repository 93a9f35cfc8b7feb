//! Bodies of requests and responses held in memory, within the budget that all of them share
//! ([`budget::Memory`]).

use axum::body::Body;
use budget::Overloaded;
use budget::{Memory, Party, Share};
use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt;
use store::boxed;
use thiserror::Error;

/// First share of a body of unknown length, in bytes.
const FIRST_BYTES: u64 = 64 << 10;

/// A body held in memory, with a share of the budget for it and for what is made of it.
#[derive(Debug)]
pub struct Held {
    /// The whole body.
    pub bytes: Bytes,
    /// Its share.
    pub share: Share,
}

/// Why a body cannot be held.
#[derive(Debug, Error)]
pub enum BodyError {
    /// The body is larger than the limit.
    #[error("the body is larger than {max_bytes} bytes")]
    TooLarge {
        /// The limit in bytes.
        max_bytes: u64,
    },
    /// The body ended before it was complete.
    #[error("the body could not be read to its end: {0}")]
    Broken(String),
    /// The budget has no room for the body now.
    #[error(transparent)]
    Memory(#[from] Overloaded),
}

/// Reads a body of at most `max_bytes` into memory for a party. Each byte costs `times` bytes of
/// the budget, to cover what is made of the body while it is still held. A body that never fits
/// into the budget is too large, too.
///
/// If the length is announced, the whole share is taken before reading, and the call waits for it.
/// A body of unknown length starts with a small share, which doubles as bytes arrive. If the share
/// cannot grow, the body is refused.
#[boxed]
pub async fn held(memory: &Memory, party: &Party, body: Body, max_bytes: u64, times: u64) -> Result<Held, BodyError> {
    let max_bytes = max_bytes.min(memory.request_bytes_max() / times.max(1));
    let announced = body.size_hint().exact();
    if announced.is_some_and(|bytes| bytes > max_bytes) {
        return Err(BodyError::TooLarge { max_bytes });
    }
    let mut room_bytes = announced.unwrap_or_else(|| (FIRST_BYTES / times.max(1)).min(max_bytes));
    let mut share = memory.reserve(party, room_bytes.saturating_mul(times)).await?;
    let mut bytes = BytesMut::with_capacity(usize::try_from(room_bytes).unwrap_or(usize::MAX));
    let mut body = body;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        let len_bytes = (bytes.len() + data.len()) as u64;
        if len_bytes > max_bytes {
            return Err(BodyError::TooLarge { max_bytes });
        }
        if len_bytes > room_bytes {
            room_bytes = (2 * room_bytes).max(len_bytes).min(max_bytes);
            share.resize(room_bytes.saturating_mul(times))?;
            bytes.reserve(usize::try_from(room_bytes).unwrap_or(usize::MAX) - bytes.len());
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Held { bytes: bytes.freeze(), share })
}

/// A response that is written before it is sent, with its share.
struct Written {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Written {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The bytes of a response with the share that they were written within. The share becomes as large
/// as they are, and lasts until they are sent or dropped.
pub fn with_share(bytes: impl Into<Bytes>, mut share: Share) -> Result<Bytes, Overloaded> {
    let bytes = bytes.into();
    share.resize(bytes.len() as u64)?;
    Ok(Bytes::from_owner(Written { bytes, _share: share }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use futures::FutureExt;
    use futures::stream::{self, StreamExt};

    use super::*;

    const MB: usize = 1 << 20;

    fn party(number: u8) -> Party {
        Party::Network([192, 0, 2, number].into())
    }

    /// A body of unknown length, in pieces of 64 KiB.
    fn chunked(len_bytes: usize) -> Body {
        let pieces = (0..len_bytes / (64 << 10)).map(|_| Ok::<_, axum::BoxError>(Bytes::from(vec![7; 64 << 10])));
        Body::from_stream(stream::iter(pieces))
    }

    #[tokio::test]
    async fn a_body_is_held_whole_whether_its_length_is_announced_or_not() {
        let memory = Memory::new(64 * MB as u64);
        for body in [Body::from(vec![7; 3 * MB]), chunked(3 * MB)] {
            let held = held(&memory, &party(1), body, 4 * MB as u64, 2).await.unwrap();
            assert_eq!(held.bytes, vec![7; 3 * MB]);
            assert!(held.share.bytes() >= 6 * MB as u64);
            drop(held);
            assert_eq!(memory.taken_bytes(), 0);
        }
    }

    #[tokio::test]
    async fn a_response_holds_its_share_until_it_is_sent() {
        let memory = Memory::new(64 * MB as u64);
        let share = memory.reserve(&party(1), 8 * MB as u64).await.unwrap();
        let body = Body::from(with_share("x".repeat(1_000), share).unwrap());
        assert_eq!(body.size_hint().exact(), Some(1_000));
        assert_eq!(memory.taken_bytes(), 1_000, "the rest is free for others");
        let sent = body.collect().await.unwrap().to_bytes();
        assert_eq!(sent, "x".repeat(1_000));
        drop(sent);
        assert_eq!(memory.taken_bytes(), 0);
        let share = memory.reserve(&party(1), 1).await.unwrap();
        with_share(vec![7_u8; 57 * MB], share).unwrap_err();
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused_before_it_is_read_or_as_soon_as_it_exceeds_the_limit() {
        let memory = Memory::new(64 * MB as u64);
        let never_read = Body::from_stream(stream::pending::<Result<Bytes, axum::BoxError>>());
        let announced = Body::new(Announced { body: never_read, len_bytes: MB as u64 + 1 });
        for body in [announced, chunked(2 * MB)] {
            let refused = held(&memory, &party(1), body, MB as u64, 1).await.unwrap_err();
            assert!(matches!(refused, BodyError::TooLarge { max_bytes } if max_bytes == MB as u64), "{refused}");
        }
        assert_eq!(memory.taken_bytes(), 0);
    }

    #[tokio::test]
    async fn a_body_that_never_fits_into_the_budget_is_too_large_and_not_refused_for_now() {
        let memory = Memory::new(8 * MB as u64);
        for body in [Body::from(vec![7; 2 * MB]), chunked(2 * MB)] {
            let refused = held(&memory, &party(1), body, 4 * MB as u64, 2).await.unwrap_err();
            let most = 7 * MB as u64 / 4;
            assert!(matches!(refused, BodyError::TooLarge { max_bytes } if max_bytes == most), "{refused}");
        }
        for body in [Body::from(vec![7; 3 * MB / 2]), chunked(3 * MB / 2)] {
            assert_eq!(held(&memory, &party(1), body, 4 * MB as u64, 2).await.unwrap().bytes.len(), 3 * MB / 2);
        }
        assert_eq!(memory.taken_bytes(), 0);
    }

    /// A body of 15/16 MB that stops before its last byte.
    fn unfinished() -> Body {
        let len_bytes = 15 * (MB / 16);
        let most = stream::iter([Ok::<_, axum::BoxError>(Bytes::from(vec![7; len_bytes - 1]))]);
        Body::new(Announced { body: Body::from_stream(most.chain(stream::pending())), len_bytes: len_bytes as u64 })
    }

    /// A stream whose length is known.
    struct Announced {
        body: Body,
        len_bytes: u64,
    }

    impl http_body::Body for Announced {
        type Data = Bytes;
        type Error = axum::Error;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, axum::Error>>> {
            std::pin::Pin::new(&mut self.body).poll_frame(context)
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.len_bytes)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn unfinished_bodies_stay_within_the_budget_while_small_ones_succeed() {
        let memory = Memory::new(8 * MB as u64);
        let parties: Vec<Party> = (0..150).map(party).collect();
        for parties in [&parties[..], &vec![party(1); 150]] {
            let mut reading: Vec<_> =
                parties.iter().map(|party| Box::pin(held(&memory, party, unfinished(), MB as u64, 1))).collect();
            let mut refused = 0;
            for body in &mut reading {
                refused += usize::from(body.now_or_never().is_some());
            }
            assert!(memory.taken_bytes() > 2 * MB as u64 && memory.taken_bytes() <= 7 * MB as u64);
            assert!(refused < 150);
            let small = Body::from("volumeIDs=a.b");
            let small = held(&memory, &party(1), small, MB as u64, 2).now_or_never().unwrap();
            assert_eq!(small.unwrap().bytes, "volumeIDs=a.b");
            drop(reading);
            assert_eq!(memory.taken_bytes(), 0);
        }
    }
}

//! Forms with files (`multipart/form-data`, RFC 7578), whose parts are read as they arrive.
//!
//! The parser (the crate `multer`) keeps in memory what comes before the first part, and the header
//! of each part until its end, however long they are. It takes everything that has arrived before
//! it looks at any of it, and searches all that it keeps again each time. So it gets the body in
//! pieces here, a further one only if those before are not enough, and where it looks for the next
//! part only so many bytes.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use store::boxed;

use axum::BoxError;
use axum::body::{Body, BodyDataStream};
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, header};
use multer::{Constraints, Field, Multipart};
use thiserror::Error;

/// Most bytes of a boundary (RFC 2046, section 5.1.1).
const BOUNDARY_BYTES_MAX: usize = 70;

/// Most bytes before a part, with its header: what comes before the first one, or the rest of the
/// one before that nobody has read.
pub const BEFORE_PART_BYTES_MAX: usize = 64 << 10;

/// Bytes of a piece before a part: the parser looks for the part after each of them.
const PIECE_BEFORE_PART_BYTES: usize = 4 << 10;

/// Bytes of a piece of the data of a part.
const PIECE_BYTES: usize = 64 << 10;

/// Memory that the parser takes, in bytes: a piece of data with what comes before the next part,
/// and as much again while its buffer grows.
pub const PARSER_BYTES: u64 = 2 * (PIECE_BYTES + BEFORE_PART_BYTES_MAX) as u64;

/// The room while the data of a part arrives: its reader has its own limit.
const UNLIMITED: usize = usize::MAX;

/// Why a request has no form.
#[derive(Debug, Error)]
pub enum NoForm {
    /// Its body has another type, or none: then it is empty.
    #[error("a body of type `{0}` is no form")]
    Type(String),
    /// The type says no boundary that is possible.
    #[error("multipart/form-data has a boundary of 1 to {BOUNDARY_BYTES_MAX} characters")]
    Boundary,
}

/// More came before a part than may.
#[derive(Debug, Error)]
#[error("more than {BEFORE_PART_BYTES_MAX} bytes come before a part")]
struct TooMuchBefore;

/// A form while it arrives. What comes after its last part is not read.
pub struct Form {
    parts: Multipart<'static>,
    gate: Arc<Gate>,
}

/// What the parser may get.
struct Gate {
    /// How many bytes.
    room: AtomicUsize,
    /// Whether it first looks at what it has. Otherwise it would keep a piece more for each part,
    /// however small the parts are.
    must_look: AtomicBool,
}

impl Gate {
    fn open(&self, room: usize) {
        self.room.store(room, Ordering::Relaxed);
        self.must_look.store(true, Ordering::Relaxed);
    }
}

impl Form {
    /// The form in the body of a request with these headers. The limits of single parts are among
    /// the constraints. The caller holds [`PARSER_BYTES`] of memory for it.
    pub fn of(headers: &HeaderMap, body: Body, constraints: Constraints) -> Result<Self, NoForm> {
        let said = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let boundary = multer::parse_boundary(said).map_err(|error| match error {
            multer::Error::NoBoundary => NoForm::Boundary,
            _ => NoForm::Type(said.to_owned()),
        })?;
        if !(1..=BOUNDARY_BYTES_MAX).contains(&boundary.len()) {
            return Err(NoForm::Boundary);
        }
        let gate = Gate { room: AtomicUsize::new(BEFORE_PART_BYTES_MAX), must_look: AtomicBool::new(false) };
        let gate = Arc::new(gate);
        let pieces = Pieces { body: body.into_data_stream(), rest: Bytes::new(), gate: gate.clone() };
        Ok(Self { parts: Multipart::with_constraints(pieces, boundary, constraints), gate })
    }

    /// The next part; `None` after the last one. The one before is dropped by then.
    ///
    /// Errors: those of the body and of the parser, and the constraints. If more than
    /// [`BEFORE_PART_BYTES_MAX`] come before the part: [`multer::Error::StreamSizeExceeded`].
    #[boxed]
    pub async fn next_part(&mut self) -> Result<Option<Field<'static>>, multer::Error> {
        self.gate.open(BEFORE_PART_BYTES_MAX);
        let next = self.parts.next_field().await;
        self.gate.open(UNLIMITED);
        next.map_err(|error| match error {
            multer::Error::StreamReadFailed(cause) if cause.is::<TooMuchBefore>() => {
                multer::Error::StreamSizeExceeded { limit: BEFORE_PART_BYTES_MAX as u64 }
            }
            error => error,
        })
    }
}

/// A body in pieces.
struct Pieces {
    body: BodyDataStream,
    /// What has arrived and was not passed on.
    rest: Bytes,
    gate: Arc<Gate>,
}

impl Stream for Pieces {
    type Item = Result<Bytes, BoxError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The parser looks at what it has only when there is no more for the moment.
        if self.gate.must_look.swap(false, Ordering::Relaxed) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = self.gate.room.load(Ordering::Relaxed);
        if room == 0 {
            return Poll::Ready(Some(Err(TooMuchBefore.into())));
        }
        while self.rest.is_empty() {
            match ready!(Pin::new(&mut self.body).poll_next(context)) {
                Some(Ok(piece)) => self.rest = piece,
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                None => return Poll::Ready(None),
            }
        }
        let most = if room == UNLIMITED { PIECE_BYTES } else { room.min(PIECE_BEFORE_PART_BYTES) };
        let len = most.min(self.rest.len());
        let piece = self.rest.split_to(len);
        self.gate.open(if room == UNLIMITED { room } else { room - len });
        Poll::Ready(Some(Ok(piece)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::iter;

    use futures::stream;

    use super::*;

    /// The beginning of a part, without the end of its header.
    const PART: &str = "--x\r\nContent-Disposition: form-data; name=\"p\"\r\n";

    fn of_type(said: &str, body: Body) -> Result<Form, NoForm> {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, said.parse().unwrap())]);
        Form::of(&headers, body, Constraints::new())
    }

    fn form_in(body: Body) -> Form {
        of_type("multipart/form-data; boundary=x", body).unwrap()
    }

    /// A body that begins like this and goes on for ever, and how many bytes of it were asked for.
    fn endless(start: &str) -> (Body, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let start = iter::once(Bytes::from(start.to_owned()));
        let pieces = start.chain(iter::repeat(Bytes::from_static(&[b'a'; 1_000]))).map(move |piece| {
            count.fetch_add(piece.len(), Ordering::Relaxed);
            Ok::<_, BoxError>(piece)
        });
        (Body::from_stream(stream::iter(pieces)), asked)
    }

    #[tokio::test]
    async fn little_is_read_of_what_has_no_end_before_a_part() {
        for start in ["", "--", "--x\r\n", "--x\r\nA: ", "--x\r\nContent-Disposition: form-data; name=\""] {
            let (body, asked) = endless(start);
            let refused = form_in(body).next_part().await.unwrap_err();
            assert!(matches!(refused, multer::Error::StreamSizeExceeded { .. }), "{start}: {refused}");
            let asked = asked.load(Ordering::Relaxed);
            assert!(asked <= BEFORE_PART_BYTES_MAX + 2_000, "{start}: {asked}");
        }
    }

    #[tokio::test]
    async fn each_part_has_the_same_room_before_it_and_nothing_is_read_after_the_last_one() {
        let (header, data) = (format!("{PART}A: {}\r\n\r\n", "a".repeat(50_000)), "b".repeat(100_000));
        let parts = format!("{header}{data}\r\n").repeat(3) + "--x--";
        let (body, asked) = endless(&parts);
        let mut form = form_in(body);
        for _ in 0..3 {
            let part = form.next_part().await.unwrap().unwrap();
            assert_eq!(part.name(), Some("p"));
            assert_eq!(part.text().await.unwrap(), data);
        }
        assert!(form.next_part().await.unwrap().is_none());
        let asked = asked.load(Ordering::Relaxed);
        assert!(asked < parts.len() + 5_000, "{asked}");
    }

    #[tokio::test]
    async fn no_more_is_read_than_a_part_needs_however_many_there_are() {
        const MANY: usize = 500;
        let parts = format!("{PART}\r\nb\r\n").repeat(MANY) + "--x\r\n";
        let (body, asked) = endless(&parts);
        let mut form = form_in(body);
        for _ in 0..MANY {
            assert_eq!(form.next_part().await.unwrap().unwrap().text().await.unwrap(), "b");
        }
        assert_eq!(asked.load(Ordering::Relaxed), parts.len());
    }

    #[tokio::test]
    async fn what_nobody_has_read_of_a_part_counts_for_the_next_one() {
        let (body, asked) = endless(&format!("{PART}\r\n"));
        let mut form = form_in(body);
        drop(form.next_part().await.unwrap().unwrap());
        let refused = form.next_part().await.unwrap_err();
        assert!(matches!(refused, multer::Error::StreamSizeExceeded { .. }), "{refused}");
        assert!(asked.load(Ordering::Relaxed) <= 2 * BEFORE_PART_BYTES_MAX);
    }

    #[tokio::test]
    async fn the_pieces_in_which_a_body_arrives_make_no_difference() {
        let data = "\r\n--\r\n--y--".repeat(100);
        let parts = format!("before\r\n{PART}\r\n{data}\r\n{PART}\r\n\r\n--x--\r\nafter");
        for len in [1, 2, 7, 1_000, parts.len()] {
            let pieces = parts.as_bytes().chunks(len).map(|piece| Ok::<_, BoxError>(Bytes::copy_from_slice(piece)));
            let mut form = form_in(Body::from_stream(stream::iter(pieces.collect::<Vec<_>>())));
            assert_eq!(form.next_part().await.unwrap().unwrap().text().await.unwrap(), data, "{len}");
            assert_eq!(form.next_part().await.unwrap().unwrap().text().await.unwrap(), "", "{len}");
            assert!(form.next_part().await.unwrap().is_none(), "{len}");
        }
    }

    #[test]
    fn a_boundary_has_a_length_and_another_type_is_no_form() {
        for (said, is_form) in [
            (format!("multipart/form-data; boundary={}", "x".repeat(70)), true),
            (format!("multipart/form-data; boundary={}", "x".repeat(71)), false),
            ("multipart/form-data".to_owned(), false),
        ] {
            let form = of_type(&said, Body::empty());
            assert_eq!(form.is_ok(), is_form, "{said}");
            assert!(is_form || matches!(form, Err(NoForm::Boundary)), "{said}");
        }
        assert!(matches!(of_type("text/plain", Body::empty()), Err(NoForm::Type(said)) if said == "text/plain"));
    }
}

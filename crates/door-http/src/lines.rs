//! Requests of many lines, which are read as they arrive.

use axum::body::{Body, BodyDataStream};
use budget::Share;
use bytes::{Bytes, BytesMut};
use futures::stream::{self, Stream, StreamExt};

use crate::body::BodyError;

/// The non-empty lines of a body, as they arrive. They end at a line that is longer than
/// `bytes_max` or than the memory budget allows, and if the body breaks off. `share` covers the
/// part of an incomplete line in memory.
pub fn of(body: Body, bytes_max: usize, share: Share) -> impl Stream<Item = Result<Bytes, BodyError>> + Send + 'static {
    let (body, least_bytes) = (body.into_data_stream(), share.bytes());
    let state = Some(Lines { body, held: BytesMut::new(), searched: 0, bytes_max, share, least_bytes });
    stream::unfold(state, |state| async move {
        let mut lines = state?;
        match lines.next().await {
            Ok(Some(line)) => Some((Ok(line), Some(lines))),
            Ok(None) => None,
            Err(error) => Some((Err(error), None)),
        }
    })
}

struct Lines {
    body: BodyDataStream,
    held: BytesMut,
    /// Bytes in memory without the end of a line.
    searched: usize,
    bytes_max: usize,
    share: Share,
    /// Size of the share when little is in memory.
    least_bytes: u64,
}

impl Lines {
    async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        loop {
            let end = self.held[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
            self.searched = if end.is_some() { 0 } else { self.held.len() };
            if end.unwrap_or(self.held.len()) > self.bytes_max {
                return Err(BodyError::TooLarge { max_bytes: self.bytes_max as u64 });
            }
            if let Some(end) = end {
                let line = self.held.split_to(end + 1).freeze();
                match line.trim_ascii().is_empty() {
                    true => continue,
                    false => return Ok(Some(line)),
                }
            }
            match self.body.next().await {
                Some(Ok(piece)) => {
                    let needs = (self.held.len() + piece.len()) as u64;
                    if needs > self.share.bytes() {
                        self.share.resize(needs.max(2 * self.share.bytes()))?;
                    } else if needs <= self.least_bytes {
                        self.share.resize(self.least_bytes)?;
                    }
                    self.held.extend_from_slice(&piece);
                }
                Some(Err(error)) => return Err(BodyError::Broken(error.to_string())),
                None => {
                    self.searched = 0;
                    let rest = self.held.split().freeze();
                    return Ok(Some(rest).filter(|rest| !rest.trim_ascii().is_empty()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use budget::{Memory, Party};

    use super::*;

    async fn lines(pieces: &[&'static str], bytes_max: usize) -> Vec<Result<String, String>> {
        let pieces: Vec<_> =
            pieces.iter().map(|piece| Ok::<_, BodyError>(Bytes::from_static(piece.as_bytes()))).collect();
        let share = Memory::new(1 << 20).try_reserve(&Party::Local, 1_000).unwrap();
        let lines = of(Body::from_stream(stream::iter(pieces)), bytes_max, share);
        let text = |line: Result<Bytes, BodyError>| {
            line.map(|line| String::from_utf8(line.to_vec()).unwrap().trim().to_owned())
                .map_err(|error| error.to_string())
        };
        lines.map(text).collect().await
    }

    #[tokio::test]
    async fn lines_are_the_same_for_any_pieces() {
        let expected = vec![Ok("one".to_owned()), Ok("two".to_owned()), Ok("three".to_owned())];
        assert_eq!(lines(&["one\ntwo\n\nthree\n"], 9).await, expected);
        assert_eq!(lines(&["o", "ne\nt", "wo", "\n", " \n", "thr", "ee"], 9).await, expected);
        assert_eq!(lines(&[], 9).await, []);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_ends_the_lines_before_it_is_held_whole() {
        let read = lines(&["one\n", "0123456789", "0123456789", "never read\n"], 15).await;
        assert_eq!(read, [Ok("one".to_owned()), Err("the body is larger than 15 bytes".to_owned())]);
    }

    #[tokio::test]
    async fn a_line_without_enough_memory_ends_the_lines_and_releases_their_share() {
        let memory = Memory::new(1 << 20);
        let share = memory.try_reserve(&Party::Local, 1_000).unwrap();
        let endless = stream::repeat_with(|| Ok::<_, BodyError>(Bytes::from(vec![b'x'; 10_000])));
        let lines: Vec<_> = of(Body::from_stream(endless), usize::MAX, share).collect().await;
        assert!(matches!(&lines[..], [Err(BodyError::Memory(_))]), "{lines:?}");
        assert_eq!(memory.taken_bytes(), 0);
    }
}

//! Large contents whose stored bytes are damaged: reads report the damage and never return a wrong
//! byte.

use std::ops::Range;

use bytes::Bytes;
use futures::{StreamExt, stream};

use super::{Damaging, bytes, call};
use crate::{ContentId, StoreError, Table};

/// Bytes of each content: several blocks of every engine, with a partial last block.
const CONTENT_BYTES: usize = 1_000_000;

/// Bytes without repetition, different for each seed.
fn sample(seed: u32) -> Bytes {
    let byte = |at: u32| (at.wrapping_add(seed << 24).wrapping_mul(2_654_435_761) >> 24) as u8;
    (0..CONTENT_BYTES as u32).map(byte).collect::<Vec<_>>().into()
}

async fn put(subject: &impl Damaging, content: &Bytes) -> ContentId {
    let pieces: Vec<_> = content.chunks(10_000).map(|piece| Ok(bytes(piece))).collect();
    subject.store().put_content(call(), bytes("owner"), stream::iter(pieces).boxed()).await.unwrap()
}

/// Reads a range. Panics if a byte is wrong, or if the range ends early without an error. Returns
/// whether the read ended with a report of damage.
async fn ends_in_damage(subject: &impl Damaging, id: ContentId, content: &Bytes, range: Range<usize>) -> bool {
    let is_damage = |error: &StoreError| matches!(error, StoreError::Corrupt { table: Table::Contents, .. });
    let wanted = &content[range.clone()];
    let mut pieces = match subject.store().read_content(call(), id, range.start as u64..range.end as u64).await {
        Ok(pieces) => pieces.expect("a damaged content is reported as absent"),
        Err(error) => {
            assert!(is_damage(&error), "{error}");
            return true;
        }
    };
    let mut read = 0;
    while let Some(piece) = pieces.next().await {
        match piece {
            Ok(piece) => {
                assert!(wanted[read..].starts_with(&piece), "wrong bytes at {} of {range:?}", range.start + read);
                read += piece.len();
            }
            Err(error) => {
                assert!(is_damage(&error), "{error}");
                return true;
            }
        }
    }
    assert_eq!(read, wanted.len(), "a damaged content ends early and without an error");
    false
}

/// Every read that meets the damaged bytes reports them. Reads of bytes elsewhere go on.
pub async fn a_flipped_bit_of_a_content_is_reported_and_never_handed_out(subject: &mut impl Damaging) {
    let content = sample(1);
    for at in [0, 65_535, 65_536, 500_000, CONTENT_BYTES - 1] {
        let id = put(subject, &content).await;
        subject.flip_bit(id, at as u64).await;
        assert!(ends_in_damage(subject, id, &content, 0..CONTENT_BYTES).await, "byte {at} of the whole");
        assert!(ends_in_damage(subject, id, &content, at..at + 1).await, "byte {at} alone");
        let far = if at < CONTENT_BYTES / 2 { 800_000..900_000 } else { 1_000..200_000 };
        assert!(!ends_in_damage(subject, id, &content, far).await, "bytes far from byte {at}");
    }
}

/// Its header says that it is there.
pub async fn a_content_whose_bytes_are_missing_is_damaged_and_not_absent(subject: &mut impl Damaging) {
    let content = sample(1);
    let id = put(subject, &content).await;
    subject.lose_bytes(id).await;
    assert!(ends_in_damage(subject, id, &content, 0..CONTENT_BYTES).await);
    assert!(ends_in_damage(subject, id, &content, 999_000..CONTENT_BYTES).await);
}

/// They are sound in themselves and of the same length, but in the wrong place.
pub async fn the_bytes_of_another_content_do_not_pass(subject: &mut impl Damaging) {
    let contents = [sample(1), sample(2)];
    let ids = [put(subject, &contents[0]).await, put(subject, &contents[1]).await];
    subject.exchange(ids[0], ids[1]).await;
    for (id, content) in ids.into_iter().zip(&contents) {
        assert!(ends_in_damage(subject, id, content, 0..CONTENT_BYTES).await);
        assert!(ends_in_damage(subject, id, content, 300_000..300_001).await);
    }
}

//! Where a page of results begins, as clients see it: a place in an order, sealed.
//!
//! A place names the resource that was looked at last. The agent may not be allowed to read it, so
//! the place is encrypted (AES-256-GCM, NIST SP 800-38D). Nobody can make a cursor, either: one that
//! a client invents could make a search read everything. The key is in the store, so each server
//! reads the cursors of the others. A cursor stays valid whatever changes.

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use bytes::Bytes;
use heads::{Heads, ObjectsError, ObjectsResult};
use serde::{Deserialize, Serialize};
use store::{Class, Stored, Table, ValueKind, stored};

use crate::keys;
use crate::query::{Field, Place};

/// The first byte of each cursor. Another meaning of what follows gets another one.
const VERSION: u8 = 1;

/// The most bytes of a cursor: a value, a path, and what seals them.
const CURSOR_BYTES_MAX: usize = 4 << 10;

/// The stored key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CursorKey([u8; 32]);

impl Stored for CursorKey {
    const KIND: ValueKind = ValueKind::SearchCursorKey;
}

/// Seals places, and opens what it has sealed.
pub struct Cursors(RandomizedNonceKey);

impl Cursors {
    fn new(key: &CursorKey) -> ObjectsResult<Self> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, &key.0);
        key.map(Self).map_err(|_| ObjectsError::Internal("a key of another length".to_owned()))
    }

    /// A cursor for a place in an order.
    ///
    /// Errors: the system has no random numbers.
    pub fn seal(&self, order: Field, is_descending: bool, place: &Place) -> ObjectsResult<Vec<u8>> {
        let context = context(order, is_descending);
        let mut sealed = place.as_bytes().to_vec();
        let nonce = self.0.seal_in_place_append_tag(Aad::from(context), &mut sealed);
        let nonce = nonce.map_err(|_| ObjectsError::Internal("a cursor cannot be sealed".to_owned()))?;
        Ok([&context[..1], nonce.as_ref(), &sealed].concat())
    }

    /// The place of a cursor; `None` if it is none of this store in this order.
    pub fn open(&self, order: Field, is_descending: bool, cursor: &[u8]) -> Option<Place> {
        if cursor.len() > CURSOR_BYTES_MAX {
            return None;
        }
        let (nonce, sealed) = cursor.strip_prefix(&[VERSION])?.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, context) = (Nonce::from(nonce), context(order, is_descending));
        let mut sealed = sealed.to_vec();
        let place = self.0.open_in_place(nonce, Aad::from(context), &mut sealed).ok()?;
        keys::is_place(order.list(), place).then(|| Place(Bytes::copy_from_slice(place)))
    }
}

/// What a cursor is sealed with besides its place: it is one of this order only.
fn context(order: Field, is_descending: bool) -> [u8; 2] {
    let field = match order {
        Field::Path => 0,
        Field::Created => 1,
        Field::Modified => 2,
        Field::Size => 3,
        Field::MediaType => 4,
    };
    [VERSION, 2 * field + u8::from(is_descending)]
}

/// Reads the key as searches need it; `None`: no server has made it yet.
pub(crate) async fn read(heads: &Heads) -> ObjectsResult<Option<Cursors>> {
    let get = async || {
        let call = heads.call(Class::Description);
        Ok(heads.store().get(call, Table::Work, &keys::state_partition(), &keys::cursor_key()).await?)
    };
    let row = heads.retry_transient(get).await?;
    let key = row.and_then(|row| stored::open(&row.value).ok());
    key.map(|key| Cursors::new(&key)).transpose()
}

/// Makes the key, unless there is one. A damaged one is replaced, which ends all cursors.
pub(crate) async fn provide(heads: &Heads) -> ObjectsResult<()> {
    let (partition, sort) = (keys::state_partition(), keys::cursor_key());
    let row = heads.guarded_rows(Table::Work, partition.clone(), vec![sort.clone()]).await?.pop().flatten();
    let known = heads::guarded::Known::<CursorKey>::of(Table::Work, row)?;
    if known.value.is_none() {
        let mut key = [0; 32];
        let random = || heads.surroundings().random.bytes();
        key.as_chunks_mut::<16>().0.iter_mut().for_each(|half| *half = random());
        // If another server was faster, its key counts.
        heads.write_guarded(Table::Work, partition, sort, &CursorKey(key), known.expect).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::keys::Facet;

    fn place() -> Place {
        Place(keys::place(b"", "secret/letter", Facet::Itself))
    }

    #[test]
    fn a_cursor_is_of_one_order_and_shows_no_path() {
        let cursors = Cursors::new(&CursorKey([7; 32])).unwrap();
        let cursor = cursors.seal(Field::Path, true, &place()).unwrap();
        assert!(!cursor.windows(6).any(|bytes| bytes == b"secret"), "{cursor:?}");
        assert_eq!(cursors.open(Field::Path, true, &cursor), Some(place()));
        assert_eq!(cursors.open(Field::Path, false, &cursor), None);
        assert_eq!(cursors.open(Field::Size, true, &cursor), None);
    }

    #[test]
    fn a_cursor_that_was_not_made_here_is_none() {
        let cursors = Cursors::new(&CursorKey([7; 32])).unwrap();
        let cursor = cursors.seal(Field::Path, false, &place()).unwrap();
        for at in 0..cursor.len() {
            let mut flipped = cursor.clone();
            flipped[at] ^= 1;
            assert_eq!(cursors.open(Field::Path, false, &flipped), None, "byte {at}");
            assert_eq!(cursors.open(Field::Path, false, &cursor[..at]), None, "{at} bytes");
        }
        let of_others = Cursors::new(&CursorKey([8; 32])).unwrap();
        assert_eq!(of_others.open(Field::Path, false, &cursor), None);
        assert_eq!(cursors.open(Field::Path, false, &[VERSION; 1 << 20]), None);
        // What has no path is no place, even if it is sealed.
        let senseless = cursors.seal(Field::Path, false, &Place(Bytes::from_static(&[0xff]))).unwrap();
        assert_eq!(cursors.open(Field::Path, false, &senseless), None);
    }

    /// A change of these bytes is a change of the stored format.
    #[test]
    fn the_bytes_of_the_stored_key_do_not_change() {
        assert_eq!(stored::encode(&CursorKey([9; 32])).unwrap()[..], [9; 32]);
    }
}

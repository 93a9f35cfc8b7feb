//! `WATCH`: a transaction happens only if some records are as they were.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};

use budget::{Party, Share};
use bytes::Bytes;
use records::{Mode, Record};
use store::{Deadline, stored};

use crate::Door;
use crate::error::{CommandResult, Refusal};
use crate::reply::Reply;

/// A connection watches at most so many records.
const WATCHED_MAX: usize = 64;

/// Memory for a watched record besides its id.
const RECORD_BYTES: usize = 64;

/// The records that a connection watches.
#[derive(Default)]
pub(crate) struct Watched {
    /// A digest of each record as it was when it was first watched; `None`: there was none.
    seen: BTreeMap<Bytes, Option<u64>>,
    /// The key of the digests. A client cannot make another record of the same digest.
    key: RandomState,
    share: Option<Share>,
    /// Whether records are not watched that should be.
    is_broken: bool,
}

impl Watched {
    /// Records are not watched that should be: the next transaction does not happen.
    pub(crate) fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// Whether that is so.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Watches records, from what they are now. What is watched already stays as it was seen.
    pub(crate) async fn watch(
        &mut self,
        door: &Door,
        party: &Party,
        ids: &[Bytes],
        deadline: Deadline,
    ) -> CommandResult<Reply> {
        if door.records.mode() == Mode::Fast {
            return Err(Refusal::not_fast("watch"));
        }
        let mut new: Vec<Bytes> = ids.iter().filter(|id| !self.seen.contains_key(*id)).cloned().collect();
        new.sort();
        new.dedup();
        if self.seen.len() + new.len() > WATCHED_MAX {
            return Err(Refusal::error(format_args!("a connection watches at most {WATCHED_MAX} keys")));
        }
        let bytes: usize = self.seen.keys().chain(&new).map(|id| id.len() + RECORD_BYTES).sum();
        let no_memory = |_| Refusal::overloaded("there is no memory to watch so many keys now");
        // The new share is taken beside the old one, which is small.
        self.share = Some(door.memory.try_reserve(party, bytes as u64).map_err(no_memory)?);
        let _place = door.admission.places(1, deadline).await?;
        let (records, _held) = door.read(party, &new, deadline).await?;
        for (id, record) in new.iter().zip(records) {
            // A copy, because words keep the whole buffer in which they arrived.
            self.seen.insert(Bytes::copy_from_slice(id), self.digest(record.as_ref())?);
        }
        Ok(Reply::OK)
    }

    /// The ids.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &Bytes> {
        self.seen.keys()
    }

    /// Whether a record is as it was seen, or is not watched.
    pub(crate) fn is_as_seen(&self, id: &Bytes, record: Option<&Record>) -> bool {
        self.seen.get(id).is_none_or(|seen| self.digest(record).is_ok_and(|digest| digest == *seen))
    }

    fn digest(&self, record: Option<&Record>) -> CommandResult<Option<u64>> {
        let encoded = record.map(stored::encode).transpose().map_err(Refusal::error)?;
        Ok(encoded.map(|encoded| self.key.hash_one(encoded)))
    }
}

//! Received versions: their states and their times are those that clients sent.
//!
//! Such a version is no head. It was never current, and changes nothing of what there was as of a
//! time. One row lists those of a resource. The parts of a version are written under a revision of
//! its own, then its state ([`ReceivedState`]) beside them, and then it is put into the list by
//! compare-and-write. So no list names a version that is not whole.
//!
//! Before its parts a writer records them as work. A collector that finds the record and no such
//! version in the list raises the floor of the list. From then on the version cannot come into the
//! list, and its parts are removed.
//!
//! A version is listed at the beginning of a second, before that of the present head. Heads come
//! only after the present one, so no other version ever begins in that second. A version that was
//! removed stays in the list with a mark: its time is not used again.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::{Call, ContentId, Stored, Table, UnixMillis, ValueKind, boxed};

use crate::error::{ObjectsError, ObjectsResult};
use crate::guarded::Known;
use crate::handle::Heads;
use crate::head::Head;
use crate::keep::Keep;
use crate::keys;
use crate::resource_body::ResourceBody;
use crate::retries::{Tries, changes_all_the_time};
use crate::revision::RevisionId;
use crate::switch::Amends;

/// Received versions of one resource, removed ones included: as many as fit into one row.
pub const RECEIVED_MAX: usize = 1_000;

/// The received versions of a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedVersions {
    /// No version is added any more that a revision at or below this one wrote.
    pub floor: RevisionId,
    /// In order of time, one for each time.
    pub versions: Vec<ReceivedVersion>,
}

impl Stored for ReceivedVersions {
    const KIND: ValueKind = ValueKind::ReceivedVersions;
}

/// A received version in the list of its resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedVersion {
    /// Its time: the beginning of a second.
    pub at: UnixMillis,
    /// The revision that wrote its parts.
    pub written: RevisionId,
    /// The incarnation that was there when it was received.
    pub incarnation: RevisionId,
    /// Whether it is of bytes with a description.
    pub is_binary: bool,
    /// The content with its bytes, if it has one. So the collector of contents reads no states.
    pub content: Option<ContentId>,
    /// Whether it was removed.
    pub is_removed: bool,
}

/// The state of a received version. All types of its fields are part of this kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedState {
    /// Its contents.
    pub body: ResourceBody,
    /// Whether it is of an archival group.
    pub is_group: bool,
}

impl Stored for ReceivedState {
    const KIND: ValueKind = ValueKind::ReceivedVersion;
}

impl ReceivedVersion {
    /// Where it is among the versions of its resource. No head has this revision.
    pub fn revision(&self) -> RevisionId {
        RevisionId::first_at(self.at)
    }
}

impl ReceivedVersions {
    /// Whether the version that a revision wrote is or was listed.
    pub fn has(&self, written: RevisionId) -> bool {
        self.versions.iter().any(|version| version.written == written)
    }

    /// The version at a revision ([`ReceivedVersion::revision`]), also if it was removed.
    pub fn at(&self, revision: RevisionId) -> Option<&ReceivedVersion> {
        self.versions.iter().find(|version| version.revision() == revision)
    }

    /// The list with one more version; `None` if it has that, may not have it any more, has another
    /// one at that time, or is full.
    pub fn with(&self, version: ReceivedVersion) -> Option<Self> {
        let is_free = version.written > self.floor && self.versions.len() < RECEIVED_MAX;
        let place = self.versions.binary_search_by_key(&version.at, |other| other.at).err().filter(|_| is_free)?;
        let mut list = self.clone();
        list.versions.insert(place, version);
        Some(list)
    }

    /// The list with those versions removed that are at these revisions; `None` if they are.
    pub fn without(&self, removed: &[RevisionId]) -> Option<Self> {
        let mut list = self.clone();
        for version in &mut list.versions {
            version.is_removed |= removed.contains(&version.revision());
        }
        (list != *self).then_some(list)
    }

    /// The list to which nothing is added any more that a revision wrote; `None` if that is so, or
    /// if it has that version.
    pub fn fenced(&self, written: RevisionId) -> Option<Self> {
        let is_open = written > self.floor && !self.has(written);
        is_open.then(|| Self { floor: written, ..self.clone() })
    }
}

impl Heads {
    /// The received versions of an object.
    #[boxed]
    pub async fn received(&self, object: &Bytes) -> ObjectsResult<ReceivedVersions> {
        Ok(self.known_received(object).await?.value.unwrap_or_default())
    }

    async fn known_received(&self, object: &Bytes) -> ObjectsResult<Known<ReceivedVersions>> {
        let list = vec![keys::received_list()];
        let row = self.guarded_rows(Table::Objects, keys::received(object), list).await?.pop().flatten();
        let known = Known::of(Table::Objects, row)?;
        match known.is_damaged() {
            true => Err(ObjectsError::corrupt(Table::Objects, "a list of received versions cannot be read")),
            false => Ok(known),
        }
    }

    /// Changes the list of received versions of an object with `change`, which is called again
    /// whenever the list changed meanwhile, and returns `None` when nothing is left to do. Returns
    /// the resulting list. After an error it is not known whether the change was or will be made.
    ///
    /// A long list is no small row. A change that removes is still refused as late as removals when
    /// disk space runs low: it replaces a list by one that is not longer.
    #[boxed]
    pub async fn change_received(
        &self,
        object: &Bytes,
        amends: Amends,
        change: &(dyn Fn(&ReceivedVersions) -> Option<ReceivedVersions> + Sync),
    ) -> ObjectsResult<ReceivedVersions> {
        let of: fn(Call) -> Call = match amends {
            Amends::Adding => std::convert::identity,
            Amends::Removing => Call::owed,
        };
        let mut tries = Tries::default();
        loop {
            let Known { value, expect } = self.known_received(object).await?;
            let list = value.unwrap_or_default();
            let Some(changed) = change(&list) else { return Ok(list) };
            let (partition, sort) = (keys::received(object), keys::received_list());
            match self.write_guarded_by(of, Table::Objects, partition, sort, &changed, expect).await {
                Ok(Some(_)) => return Ok(changed),
                // Whoever was faster: the next look at the list shows it.
                Ok(None) | Err(ObjectsError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
            if !tries.again().await {
                return Err(changes_all_the_time("a list of received versions", true));
            }
        }
    }

    /// The revision from which on received versions of an object with this head are kept: that of
    /// the oldest version that is kept, or of the present one.
    #[boxed]
    pub async fn received_kept_from(&self, object: &Bytes, head: &Head, keep: Keep) -> ObjectsResult<RevisionId> {
        match keep {
            Keep::All | Keep::Explicit => Ok(RevisionId::ZERO),
            _ if !keep.keeps_versions() => Ok(RevisionId::LAST),
            Keep::None | Keep::Newest(_) | Keep::For(_) => {
                let kept_from = self.retry_transient(|| self.kept_from(object, head, keep)).await?;
                Ok(kept_from.unwrap_or(head.revision))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use store::{envelope, stored};

    use super::*;
    use crate::resource_body::{Binary, BytesPlace, Kind, StoredDescription};

    fn version(at: u64, written: u8) -> ReceivedVersion {
        let (written, incarnation) = (RevisionId([written; 16]), RevisionId([1; 16]));
        let content = Some(ContentId([written.0[0]; 16]));
        ReceivedVersion { at: UnixMillis(at), written, incarnation, is_binary: true, content, is_removed: false }
    }

    #[test]
    fn a_list_has_one_version_for_each_time_and_none_below_its_floor() {
        let list = ReceivedVersions::default().with(version(2_000, 5)).unwrap().with(version(1_000, 6)).unwrap();
        assert_eq!(list.versions, [version(1_000, 6), version(2_000, 5)]);
        assert_eq!((list.with(version(2_000, 7)), list.with(version(1_000, 6))), (None, None));
        let removed = list.without(&[version(2_000, 5).revision()]).unwrap();
        assert_eq!(removed.without(&[version(2_000, 5).revision()]), None);
        assert_eq!(removed.with(version(2_000, 7)), None, "a removed version never comes back, nor does its name");
        let fenced = list.fenced(RevisionId([8; 16])).unwrap();
        assert_eq!((fenced.with(version(3_000, 8)), fenced.with(version(3_000, 7))), (None, None));
        assert_eq!(fenced.with(version(3_000, 9)).unwrap().versions.len(), 3);
        assert_eq!((fenced.fenced(RevisionId([8; 16])), list.fenced(RevisionId([6; 16]))), (None, None));
    }

    #[test]
    fn a_full_list_takes_no_more_and_fits_into_a_row() {
        let mut list = ReceivedVersions::default();
        for n in 0..RECEIVED_MAX as u64 {
            list.versions.push(version((1 << 48) - 2_000_000_000 + 1_000 * n, 0xFF));
        }
        assert_eq!(list.with(version(0, 0xFF)), None);
        let bytes = stored::seal(&list).unwrap().len();
        assert!(bytes < store::Limits::default().value_bytes, "{bytes}");
    }

    #[test]
    fn the_list_and_a_state_have_these_bytes() {
        let removed = ReceivedVersion { is_removed: true, ..version(1_000, 3) };
        let list = ReceivedVersions { floor: RevisionId([2; 16]), versions: vec![removed] };
        let payload = [&[2; 16][..], &[1], &[0xe8, 7], &[3; 16], &[1; 16], &[1], &[1], &[3; 16], &[1]].concat();
        let sealed = envelope::seal_version(ValueKind::ReceivedVersions, 1, &payload);
        assert_eq!(stored::seal(&list).unwrap(), sealed);
        assert_eq!(stored::open::<ReceivedVersions>(&sealed).unwrap(), list);
        let binary = Binary {
            revision: RevisionId([3; 16]),
            place: BytesPlace::Row,
            len_bytes: 4,
            sha256: [5; 32],
            media_type: "t".to_owned(),
            disposition: None,
        };
        let description = StoredDescription { revision: RevisionId([3; 16]), pieces: 1, sha256: [6; 32] };
        let state = ReceivedState { body: ResourceBody { kind: Kind::Binary(binary), description }, is_group: false };
        let payload =
            [&[2][..], &[3; 16], &[0], &[4], &[5; 32], b"\x01t", &[0], &[3; 16], &[1], &[6; 32], &[0]].concat();
        let sealed = envelope::seal_version(ValueKind::ReceivedVersion, 1, &payload);
        assert_eq!(stored::seal(&state).unwrap(), sealed);
        assert_eq!(stored::open::<ReceivedState>(&sealed).unwrap(), state);
    }
}

//! Lists the volumes that were deleted, as far as their versions are kept.

use area::Area;
use budget::{Party, Share};
use futures::Stream;
use futures::stream::{self, StreamExt};
use hathi::VolumeId;
use heads::as_of::MembersAsOf;
use heads::containment::Container;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::ObjectState;
use heads::revision::RevisionId;
use store::{Strength, Table};

use crate::bulk::fairness::Admission;
use crate::handle::Volumes;
use crate::versions::Versions;

/// Volumes that are looked at together.
const VOLUMES_AT_ONCE: usize = 128;

/// Memory of a listing, in bytes: the heads that it reads at a time.
const HEADS_BYTES: u64 = 1 << 20;

/// A volume that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedVolume {
    /// Its id.
    pub id: VolumeId,
    /// When it was deleted ([`heads::head::Head::since`]).
    pub since: RevisionId,
}

/// A listing that is under way: its place among the bulk requests, and its memory.
struct Listing {
    volumes: Volumes,
    area: Area,
    party: Party,
    members: MembersAsOf,
    _held: (Admission, Share),
}

impl Volumes {
    /// The volumes in an area that are deleted and have versions that are kept, a page after the
    /// other. A volume that was deleted several times may be there several times. The listing takes a
    /// place among the bulk requests of its party until it is dropped.
    pub async fn deleted(
        &self,
        area: Area,
        party: Party,
    ) -> ObjectsResult<impl Stream<Item = ObjectsResult<Vec<DeletedVolume>>> + Send + use<>> {
        let admission = self.inner.fairness.admit(party.clone())?;
        let share = self.inner.memory.reserve(&party, HEADS_BYTES).await?;
        let parent = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await?;
        let members = self.heads.lost_members(&Container::Volumes, parent.incarnation()).await?;
        let listing = Listing { volumes: self.clone(), area, party, members, _held: (admission, share) };
        let next = |mut listing: Listing| async move { Ok(listing.page().await?.map(|page| (page, listing))) };
        Ok(stream::try_unfold(listing, next).boxed())
    }
}

impl Listing {
    /// The next volumes; `None` at the end.
    async fn page(&mut self) -> ObjectsResult<Option<Vec<DeletedVolume>>> {
        let _turn = self.volumes.inner.fairness.turn(&self.party).await?;
        let Some(members) = self.members.more(VOLUMES_AT_ONCE).await? else { return Ok(None) };
        let ids = members.into_iter().map(|member| VolumeId::parse(&member.found.name)).collect::<Result<Vec<_>, _>>();
        let mut ids = ids.map_err(|error| ObjectsError::corrupt(Table::Children, &error.to_string()))?;
        ids.retain(|id| self.area.has_volume(id));
        let heads = self.volumes.heads(&ids, Strength::Strong).await?;
        let mut deleted = Vec::new();
        for (id, head) in ids.into_iter().zip(heads) {
            let row = match head {
                Err(error) if error.is_damage() => {
                    tracing::warn!(%id, %error, "a list of deleted volumes leaves out one whose head cannot be read");
                    continue;
                }
                head => head?,
            };
            let Some(row) = row.filter(|row| row.head.state == ObjectState::Deleted) else { continue };
            let versions = self.volumes.versions_before(&id, row).await?;
            // A version that cannot be listed is damaged. A request for it reports that.
            let is_kept = match versions.list(RevisionId::ZERO, 1).await {
                Err(error) if error.is_damage() => true,
                listed => !listed?.is_empty(),
            };
            deleted.extend(versions.deleted().filter(|_| is_kept).map(|since| DeletedVolume { id, since }));
        }
        Ok(Some(deleted))
    }
}

impl Versions {
    /// When the volume was deleted, if it is.
    pub fn deleted(&self) -> Option<RevisionId> {
        let head = self.head();
        (head.state == ObjectState::Deleted).then(|| head.since())
    }
}

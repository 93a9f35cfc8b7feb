//! Lists the volumes that there were as of a time, as far as the history keeps what is needed.
//!
//! The container's marks say when the import of a volume began, which may be hours before the
//! volume could be read, and when its deletion began. So they only say which volumes may have been
//! there. The heads say which were ([`heads::head::Head::since`]). An import that is still under way
//! therefore changes nothing of what there was before it ends.

use std::time::Duration;

use futures::stream::{self, StreamExt, TryStreamExt};
use hathi::VolumeId;
use heads::as_of::MembersAsOf;
use heads::containment::Container;
use heads::error::{ObjectsError, ObjectsResult};
use heads::head::HeadRow;
use heads::keep::Keep;
use heads::revision::RevisionId;
use store::{Strength, Table, UnixMillis, boxed};

use crate::handle::Volumes;

/// Volumes that are looked at together.
const VOLUMES_AT_ONCE: usize = 128;

/// Volumes whose logs are read at the same time.
const LOGS_AT_ONCE: usize = 8;

/// A listing of the volumes as of a time. It holds one page, however many volumes there are.
pub struct PastVolumes {
    volumes: Volumes,
    members: MembersAsOf,
    below: RevisionId,
}

impl Volumes {
    /// Whether it is known which volumes there were at earlier times. If a number of versions is
    /// kept, that depends on each volume.
    pub fn knows_past_lists(&self) -> bool {
        matches!(self.heads.options().history.volumes, Keep::All | Keep::For(_))
    }

    /// It is known which volumes there were at each time after this one, and still will be once
    /// `ahead` has passed; `None`: of no time.
    #[boxed]
    pub async fn list_known_after(&self, ahead: Duration) -> ObjectsResult<Option<UnixMillis>> {
        let kept_for = match self.heads.options().history.volumes {
            Keep::All => None,
            Keep::For(time) => Some(time),
            Keep::None | Keep::Newest(_) | Keep::Explicit => return Ok(None),
        };
        let parent = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await?;
        let began = parent.incarnation().time();
        let Some(time) = kept_for else { return Ok(Some(began)) };
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let kept_after = UnixMillis(self.heads.now().plus(ahead).0.saturating_sub(millis));
        Ok(Some(began.max(kept_after)))
    }

    /// Begins to list the volumes that there were when exactly the changes below a position had
    /// been made ([`heads::head::Head::since`]).
    #[boxed]
    pub async fn list_as_of(&self, below: RevisionId) -> ObjectsResult<PastVolumes> {
        let parent = self.heads.retry_transient(|| self.heads.parent(&Container::Volumes)).await?;
        let members = self.heads.possible_members_as_of(&Container::Volumes, parent.incarnation(), below).await?;
        Ok(PastVolumes { volumes: self.clone(), members, below })
    }

    /// The volume, if this incarnation of it was there.
    async fn if_there(
        &self,
        id: VolumeId,
        incarnation: RevisionId,
        head: ObjectsResult<Option<HeadRow>>,
        below: RevisionId,
    ) -> ObjectsResult<Option<VolumeId>> {
        let was_there = match head {
            Ok(Some(row)) if row.head.since() < below => {
                Ok(row.head.live_volume().is_some() && row.head.incarnation == incarnation)
            }
            Ok(Some(row)) => self.was_there(&id, row, incarnation, below).await,
            Ok(None) => Ok(false),
            Err(error) => Err(error),
        };
        match was_there {
            // What cannot be read is listed, as in a present list. A request for it reports that.
            Err(error) if error.is_damage() => Ok(Some(id)),
            was_there => Ok(was_there?.then_some(id)),
        }
    }

    /// Whether an incarnation of a volume with this head was there, as its log says.
    async fn was_there(
        &self,
        id: &VolumeId,
        row: HeadRow,
        incarnation: RevisionId,
        below: RevisionId,
    ) -> ObjectsResult<bool> {
        let versions = self.versions_before(id, row).await?;
        Ok(versions.incarnation_then(below).await? == Some(incarnation))
    }
}

impl PastVolumes {
    /// At most about `max` more volumes, possibly none; `None` if there are no more. Each is there
    /// once.
    #[boxed]
    pub async fn more(&mut self, max: usize) -> ObjectsResult<Option<Vec<VolumeId>>> {
        let Some(members) = self.members.more(max.min(VOLUMES_AT_ONCE)).await? else { return Ok(None) };
        let ids = members.iter().map(|member| VolumeId::parse(&member.found.name)).collect::<Result<Vec<_>, _>>();
        let ids = ids.map_err(|error| ObjectsError::corrupt(Table::Children, &error.to_string()))?;
        let heads = self.volumes.heads.retry_transient(|| self.volumes.heads(&ids, Strength::Strong)).await?;
        let incarnations = members.into_iter().map(|member| member.incarnation);
        let lookups = ids.into_iter().zip(incarnations).zip(heads).map(|((id, incarnation), head)| {
            let (volumes, below) = (self.volumes.clone(), self.below);
            async move { volumes.if_there(id, incarnation, head, below).await }
        });
        let there = stream::iter(lookups.collect::<Vec<_>>()).buffered(LOGS_AT_ONCE);
        let there: Vec<Option<VolumeId>> = there.try_collect().await?;
        Ok(Some(there.into_iter().flatten().collect()))
    }
}

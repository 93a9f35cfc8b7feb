//! Lists volumes.

use hathi::VolumeId;
use heads::containment::{Container, Parent};
use heads::error::{ObjectsError, ObjectsResult};
use heads::list::{Found, ListToken};
use heads::revision::RevisionId;
use store::{Table, boxed};

use crate::handle::Volumes;

/// A page of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Volumes, each once. The order is stable, but not alphabetical.
    pub volumes: Vec<VolumeId>,
    /// Where the page begins; `None`: at the first volume.
    pub begins: Option<ListToken>,
    /// Where the listing continues; `None` on the last page.
    pub next: Option<ListToken>,
    /// A place in the same listing; `None` in an empty one.
    place: Option<ListToken>,
}

impl Listing {
    fn of(parent: &Parent, found: &[Found], begins: Option<ListToken>, next: Option<ListToken>) -> ObjectsResult<Self> {
        let of_first = || found.first().map(|found| ListToken::of_first(parent, &found.name));
        let place = begins.clone().or_else(|| next.clone()).or_else(of_first);
        let volumes = found.iter().map(|found| VolumeId::parse(&found.name)).collect::<Result<_, _>>();
        let volumes = volumes.map_err(|error| ObjectsError::corrupt(Table::Children, &error.to_string()))?;
        Ok(Self { volumes, begins, next, place })
    }

    /// Where the listing continues after one of these volumes.
    pub fn after(&self, id: &VolumeId) -> Option<ListToken> {
        self.place.as_ref().map(|place| place.moved_to(id.as_str()))
    }
}

impl Volumes {
    /// A page of at most `max` volumes; fewer if their ids are very long. A volume that is live from
    /// before the call until after it is listed. A volume that is not live at any time during the
    /// call is not listed.
    #[boxed]
    pub async fn list(&self, after: Option<&ListToken>, max: usize) -> ObjectsResult<Listing> {
        let parent = self.heads.parent(&Container::Volumes).await?;
        let (found, next) = self.heads.list_children(&parent, after, max).await?;
        Listing::of(&parent, &found, after.cloned(), next)
    }

    /// A page of at most `max` volumes that ends where another page begins ([`Listing::begins`]);
    /// `None`: the last page. Like any page, it has fewer if their ids are very long.
    #[boxed]
    pub async fn list_before(&self, before: Option<&ListToken>, max: usize) -> ObjectsResult<Listing> {
        let parent = self.heads.parent(&Container::Volumes).await?;
        let (found, begins) = self.heads.children_before(&parent, before, max).await?;
        Listing::of(&parent, &found, begins, before.cloned())
    }

    /// When the listing of volumes changed last; `None` if there never was a volume.
    #[boxed]
    pub async fn volumes_changed(&self) -> ObjectsResult<Option<RevisionId>> {
        let parent = self.heads.parent(&Container::Volumes).await?;
        self.heads.newest_change(parent.all_partitions().collect()).await
    }
}

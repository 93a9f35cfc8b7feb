//! The layout `volumes`: an entry per group, with all its pages.

use super::{Arrangement, Entries, GroupNames, PageEntries};
use crate::Group;

/// [`Layout::Volumes`](super::Layout::Volumes).
pub(super) struct VolumesApart;

impl Arrangement for VolumesApart {
    fn name(&self) -> &'static str {
        "volumes"
    }

    fn version(&self) -> u8 {
        1
    }

    fn entries(&self) -> Entries {
        Entries::OfGroups(names)
    }
}

fn names(group: &Group) -> GroupNames {
    GroupNames {
        directory: None,
        pages: PageEntries::Joined([&*group.name, ".txt"].concat()),
        mets: [&*group.name, ".mets.xml"].concat(),
    }
}

//! The layout `pages`: a directory per group, with an entry per page.

use super::{Arrangement, Entries, GroupNames, PageEntries};
use crate::Group;
use crate::names::PageNames;

/// [`Layout::Pages`](super::Layout::Pages).
pub(super) struct PagesApart;

impl Arrangement for PagesApart {
    fn name(&self) -> &'static str {
        "pages"
    }

    fn version(&self) -> u8 {
        1
    }

    fn entries(&self) -> Entries {
        Entries::OfGroups(names)
    }
}

fn names(group: &Group) -> GroupNames {
    let directory = [&*group.name, "/"].concat();
    GroupNames {
        pages: PageEntries::Apart(PageNames::new(&directory, ".txt")),
        mets: [&*directory, "mets.xml"].concat(),
        directory: Some(directory),
    }
}

//! How the pages of an archive become entries: one type per layout, behind [`Arrangement`].
//!
//! A new layout is a new file and a new line in the registry below. What else must change does not
//! compile, or fails a test, until it is there: `tests/all/golden.rs` wants its version and the
//! digests of its archives.

mod pages;
mod volumes;
mod wordseq;

use crate::entry::EntryHeader;
use crate::names::{self, PageNames};
use crate::{Archive, Group, Sums, crc32_combine};
use serde::{Deserialize, Serialize};

/// What a layout decides. Offsets, lengths and records of an archive follow from it.
trait Arrangement: Sync {
    /// Its name in requests, in lower case.
    fn name(&self) -> &'static str;

    /// The version of its bytes, from 1. Raise it when archives of this layout are written
    /// differently, so that no client resumes in the middle of a different archive.
    fn version(&self) -> u8;

    /// Its entries, except `ERROR.err`, which every layout has last.
    fn entries(&self) -> Entries;
}

/// The entries of a layout.
pub(crate) enum Entries {
    /// Each group has entries of its own, with these names.
    OfGroups(fn(&Group) -> GroupNames),
    /// One entry of this name has the pages of all groups, and there are no METS documents. Its
    /// records need the sums and the CRC-32 of each group, and no single members.
    One(&'static str),
}

/// Names of the entries of a group, in the order of the archive. All names of an archive that are
/// not the group's own are ASCII.
pub(crate) struct GroupNames {
    /// An entry of a directory.
    pub(crate) directory: Option<String>,
    /// The pages.
    pub(crate) pages: PageEntries,
    /// The METS document, if requested.
    pub(crate) mets: String,
}

/// The entries of a group's pages.
pub(crate) enum PageEntries {
    /// Each page is an entry. Its records have the lengths and the CRC-32 of the page, so the
    /// members are read for the contents and once more for the central directory.
    Apart(PageNames),
    /// One entry of this name has all pages. Its records need the sums and the CRC-32 of the group,
    /// so the members are read for the contents only.
    Joined(String),
}

/// Defines [`Layout`] from lines of a name, a number and an arrangement.
macro_rules! layouts {
    ($($(#[$doc:meta])+ $layout:ident = $number:literal => $arrangement:expr,)+) => {
        /// How pages become entries.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Layout {
            $($(#[$doc])+ $layout = $number,)+
        }

        impl Layout {
            /// All layouts.
            pub const ALL: [Self; [$(Self::$layout),+].len()] = [$(Self::$layout),+];

            fn arrangement(self) -> &'static dyn Arrangement {
                match self {
                    $(Self::$layout => &$arrangement,)+
                }
            }
        }
    };
}

// Stored plans and ETags contain the numbers, so a number is never given to another layout. A new
// layout comes last: serde numbers variants by their order.
layouts! {
    /// Per group a directory entry `<name>/`, an entry `<name>/00000001.txt` per page, then
    /// `<name>/mets.xml`.
    Pages = 0 => pages::PagesApart,
    /// Per group an entry `<name>.txt`, then `<name>.mets.xml`.
    Volumes = 1 => volumes::VolumesApart,
    /// One entry `wordseq.txt` with all pages of all groups; no METS.
    WordSeq = 2 => wordseq::WordSequence,
}

impl Layout {
    /// Its name in requests, in lower case.
    pub fn name(self) -> &'static str {
        self.arrangement().name()
    }

    /// The layout with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// The version of its bytes, from 1. An ETag of an archive contains it.
    pub fn version(self) -> u8 {
        self.arrangement().version()
    }

    /// A number that grows when the version of any layout is raised; 1 while all are at version 1.
    pub fn version_of_all() -> u8 {
        Self::ALL.into_iter().fold(1, |sum, layout| sum + (layout.version() - 1))
    }

    /// Whether METS documents can be sent. If not, those of an archive's groups are ignored.
    pub fn has_mets(self) -> bool {
        match self.entries() {
            Entries::OfGroups(_) => true,
            Entries::One(_) => false,
        }
    }

    pub(crate) fn entries(self) -> Entries {
        self.arrangement().entries()
    }
}

impl Archive {
    /// Names of a group's entries; `None` if its pages are part of the one entry.
    pub(crate) fn names(&self, group: usize) -> Option<GroupNames> {
        match self.layout.entries() {
            Entries::OfGroups(names) => Some(names(&self.groups[group])),
            Entries::One(_) => None,
        }
    }

    /// The one entry that has the pages of all groups, its sizes in the local header, with its
    /// name; `None` if groups have entries of their own, or if there are no groups.
    pub(crate) fn one_entry(&self) -> Option<(&'static str, EntryHeader)> {
        let Entries::One(name) = self.layout.entries() else { return None };
        if self.groups.is_empty() {
            return None;
        }
        let (mut sums, mut crc32) = (Sums::default(), 0);
        for group in &self.groups {
            let of_group = group.pages.sums();
            crc32 = crc32_combine(crc32, group.pages.crc32(), of_group.bytes);
            sums.add(of_group);
        }
        Some((name, names::joined_entry(self.level, false, &sums, crc32)))
    }

    /// The entry of all pages of a group joined, its sizes in the local header.
    pub(crate) fn joined_entry(&self, group: usize) -> EntryHeader {
        let group = &self.groups[group];
        names::joined_entry(self.level, !group.name.is_ascii(), &group.pages.sums(), group.pages.crc32())
    }
}

impl GroupNames {
    /// Number of entries of a group with these names.
    pub(crate) fn count(&self, group: &Group) -> u64 {
        let pages = match self.pages {
            PageEntries::Apart(_) => group.pages.sums().count,
            PageEntries::Joined(_) => 1,
        };
        u64::from(self.directory.is_some()) + pages + u64::from(group.mets.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_is_found_by_its_name_which_no_other_has() {
        for layout in Layout::ALL {
            assert_eq!(Layout::named(layout.name()), Some(layout));
        }
        assert_eq!(Layout::named("Pages"), None);
    }
}

//! What a change made of a resource, for messages about it.

use heads::{ObjectsResult, ResourcePath, RevisionId};
use library::Library;
use repository::{Resource, ResourceError, ResourceResult};

use crate::address::Site;
use crate::search::own_types;

/// The most rows of a description whose types are read: 240 KB.
const DESCRIPTION_ROWS_MAX: u32 = 4;

/// What of a resource a change changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Parts {
    /// The resource itself: of bytes, the bytes alone. Also if it is not known.
    #[default]
    Itself,
    /// The description of bytes alone.
    Description,
    /// Bytes and their description: they were created, restored, or changed by a transaction.
    Both,
}

/// What a change made of a resource, besides what its event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The types that clients gave the resource, as public IRIs.
    pub types: Vec<String>,
    /// What of the resource the change changed.
    pub parts: Parts,
}

impl Changed {
    /// Reads what the change with a revision made of the resource at a path. The result is the
    /// default if that version cannot be read any more, or is damaged. Types of a description of
    /// more than 240 KB are left out.
    pub async fn read(
        library: &Library,
        site: &Site,
        path: &ResourcePath,
        revision: RevisionId,
    ) -> ObjectsResult<Self> {
        match Self::of_version(library, site, path, revision).await {
            Ok(changed) => Ok(changed),
            Err(ResourceError::Objects(error)) if !error.is_damage() => Err(error),
            Err(_) => Ok(Self::default()),
        }
    }

    async fn of_version(
        library: &Library,
        site: &Site,
        path: &ResourcePath,
        revision: RevisionId,
    ) -> ResourceResult<Self> {
        let versions = library.repository.versions(path).await?;
        let Some(version) = versions.at(revision).await? else { return Ok(Self::default()) };
        let parts = parts(&version);
        if version.body().description.pieces > DESCRIPTION_ROWS_MAX {
            return Ok(Self { types: Vec::new(), parts });
        }
        let description = library.repository.description(&version).await?;
        let public = |kept: String| site.shown(&kept).unwrap_or(kept);
        let types = own_types(path, &description).into_iter().map(public).collect();
        Ok(Self { types, parts })
    }
}

/// What of a version differs from the one before it.
fn parts(version: &Resource) -> Parts {
    let (revision, body) = (version.revision(), version.body());
    let Some(binary) = body.binary() else { return Parts::Itself };
    match (binary.revision == revision, body.description.revision == revision) {
        (true, true) => Parts::Both,
        (false, true) => Parts::Description,
        (_, false) => Parts::Itself,
    }
}

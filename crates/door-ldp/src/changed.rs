//! What a change made of a resource, for messages about it.

use heads::{ObjectsResult, ResourcePath, RevisionId};
use library::Library;
use repository::{Resource, ResourceError, ResourceResult};

use crate::address::Site;
use crate::search::own_types;

/// The most rows of a description whose types are read: 240 KB.
const DESCRIPTION_ROWS_MAX: u32 = 4;

/// What a change made of a resource, besides what its event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// The types that clients gave the resource, as public IRIs.
    pub types: Vec<String>,
    /// Whether the resource is bytes, and the change is one of their description alone.
    pub is_description: bool,
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
        let is_description = is_description_alone(&version);
        if version.body().description.pieces > DESCRIPTION_ROWS_MAX {
            return Ok(Self { types: Vec::new(), is_description });
        }
        let description = library.repository.description(&version).await?;
        let public = |kept: String| site.shown(&kept).unwrap_or(kept);
        let types = own_types(path, &description).into_iter().map(public).collect();
        Ok(Self { types, is_description })
    }
}

/// Whether a version of bytes differs from the one before it by its description alone.
fn is_description_alone(version: &Resource) -> bool {
    let revision = version.revision();
    let has_old_bytes = version.body().binary().is_some_and(|binary| binary.revision != revision);
    has_old_bytes && version.body().description.revision == revision
}

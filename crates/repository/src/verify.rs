//! Verifies resources: reads them again and compares them with what was written.

use budget::Pace;
use bytes::Bytes;
use futures::StreamExt;
use futures::future::join;
use heads::error::ObjectsResult;
use heads::keys;
use heads::path::ResourcePath;
use heads::resource_body::Binary;
use heads::resource_body::Part;
use heads::retries::Tries;
use heads::revision::RevisionId;
use sha2::{Digest, Sha256};
use store::{Class, Strength, Table, boxed};

use crate::error::{ResourceError, ResourceResult};
use crate::handle::Repository;
use crate::resource::Resource;
use crate::versions::Versions;

/// Partitions of the walk for one page of resources.
const WALKED: usize = 500;

/// Earlier versions that are listed at once.
const VERSIONS_AT_ONCE: usize = 500;

/// The result of verifying a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedResource {
    /// The resource's path.
    pub path: ResourcePath,
    /// The revision that was verified; [`RevisionId::ZERO`] if its head cannot be read.
    pub revision: RevisionId,
    /// Bytes of its description and content that were read.
    pub bytes: u64,
    /// The SHA-256 of the content that was read; `None` if none was read to its end.
    pub sha256: Option<[u8; 32]>,
    /// The damaged parts. They are marked now.
    pub damaged: Vec<DamagedPart>,
    /// The container above it whose damaged head hides it, if its own head is sound.
    pub unreachable_below: Option<ResourcePath>,
}

/// A damaged part of a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedPart {
    /// The part; `None` means that its head, or that of a container above it, is damaged, so that
    /// nothing of it can be reached.
    pub part: Option<Part>,
    /// How the damage was noticed.
    pub detail: String,
}

/// The result of verifying the earlier versions at a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifiedVersions {
    /// Bytes of descriptions and contents that were read.
    pub bytes: u64,
    /// The damaged parts, each with the first version that has it. They are marked now.
    pub damaged: Vec<(RevisionId, DamagedPart)>,
}

/// Some resources, and where the walk continues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePage {
    /// In no meaningful order. Contents of deleted containers may be included.
    pub paths: Vec<ResourcePath>,
    /// Pass this to the next call; `None` on the last page. A page may be empty without being the
    /// last.
    pub next: Option<Bytes>,
}

impl Repository {
    /// Verifies the resource at a path at a pace, like [`Repository::verify`]. An unreadable head
    /// is a finding, not an error.
    #[boxed]
    pub async fn verify_at(&self, path: &ResourcePath, pace: &Pace) -> ResourceResult<VerifiedResource> {
        match self.resource(path).await {
            Ok(resource) => Ok(self.verify_parts(&resource, &Part::ALL, pace).await?),
            Err(ResourceError::Objects(error)) if error.is_damage() => {
                let damaged = vec![DamagedPart { part: None, detail: error.to_string() }];
                let (path, revision) = (path.clone(), RevisionId::ZERO);
                let unreachable_below = self.damaged_above(&path).await?;
                Ok(VerifiedResource { path, revision, bytes: 0, sha256: None, damaged, unreachable_below })
            }
            Err(error) => Err(error),
        }
    }

    /// The first container above a resource with a damaged head, unless its own head is damaged.
    async fn damaged_above(&self, path: &ResourcePath) -> ObjectsResult<Option<ResourcePath>> {
        let chain: Vec<_> = path.chain().collect();
        let partitions: Vec<_> = chain.iter().map(keys::resource_partition).collect();
        let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Strong)).await?;
        let is_sound = heads.last().is_some_and(|own| own.is_ok());
        let damaged = chain.into_iter().zip(heads).find(|(_, head)| head.is_err());
        Ok(damaged.filter(|_| is_sound).map(|(above, _)| above))
    }

    /// Reads all of a resource again: checks its description and its bytes against the checksum of
    /// each row and block, and against their SHA-256. Marks damage, and removes marks from sound
    /// parts. Passing failures are errors, never damage. Bytes stored elsewhere are not checked.
    #[boxed]
    pub async fn verify(&self, resource: &Resource) -> ObjectsResult<VerifiedResource> {
        self.verify_parts(resource, &Part::ALL, Pace::unlimited()).await
    }

    /// Does the same with some parts of a resource, at a pace.
    #[boxed]
    pub async fn verify_parts(
        &self,
        resource: &Resource,
        parts: &[Part],
        pace: &Pace,
    ) -> ObjectsResult<VerifiedResource> {
        let mut found = Vec::new();
        let (mut bytes, mut sha256) = (0, None);
        let mut add = |part: Part, read: ObjectsResult<(u64, bool)>| {
            match read {
                Ok((len, true)) => bytes += len,
                Ok((_, false)) => found.push((part, "its SHA-256 is another".to_owned())),
                Err(error) if error.is_damage() => found.push((part, error.to_string())),
                Err(error) => return Err(error),
            }
            Ok(())
        };
        if parts.contains(&Part::Description) {
            let description = self.heads.retry_transient(|| self.read_description(resource)).await;
            if let Ok(description) = &description {
                pace.took(description.len() as u64).await;
            }
            let of_description = |read: Bytes| {
                let is_sound = <[u8; 32]>::from(Sha256::digest(&read)) == resource.body.description.sha256;
                (read.len() as u64, is_sound)
            };
            add(Part::Description, description.map(of_description))?;
        }
        let binary = resource.body.binary().filter(|binary| binary.elsewhere().is_none());
        if let Some(binary) = binary.filter(|_| parts.contains(&Part::Bytes)) {
            let read = self.sha256_of(resource, binary, pace).await;
            sha256 = read.as_ref().ok().copied();
            add(Part::Bytes, read.map(|sha256| (binary.len_bytes, sha256 == binary.sha256)))?;
        }
        self.set_marks(resource, parts, &found).await?;
        let damaged = found.into_iter().map(|(part, detail)| DamagedPart { part: Some(part), detail });
        let (path, revision) = (resource.path.clone(), resource.head().revision);
        let damaged = damaged.collect();
        Ok(VerifiedResource { path, revision, bytes, sha256, damaged, unreachable_below: None })
    }

    /// Does the same with all earlier versions at a path that the history keeps, also of what was
    /// deleted. What several versions have in common is read once. Nothing is found where there
    /// never was anything.
    #[boxed]
    pub async fn verify_versions(&self, path: &ResourcePath, pace: &Pace) -> ResourceResult<VerifiedVersions> {
        let mut verified = VerifiedVersions::default();
        let versions = match self.versions(path).await {
            Err(ResourceError::Absent(_)) => return Ok(verified),
            versions => versions?,
        };
        let current: Vec<_> = versions.current().iter().flat_map(Resource::parts).collect();
        let mut before: Vec<(Part, RevisionId)> = Vec::new();
        let mut from = versions.from();
        loop {
            let page = versions.changes(from, versions.newest(), VERSIONS_AT_ONCE).await?;
            let Some(last) = page.last() else { break };
            from = last.revision.successor();
            for listed in page {
                let Some(version) = versions.in_force(listed.revision.successor()).await? else { continue };
                let parts: Vec<_> = version.parts().collect();
                let is_new = |part: &&(Part, RevisionId)| !before.contains(part) && !current.contains(part);
                let new: Vec<Part> = parts.iter().filter(is_new).map(|(part, _)| *part).collect();
                let found = self.verify_parts(&version, &new, pace).await?;
                verified.bytes += found.bytes;
                if !found.damaged.is_empty() && !self.versions(path).await?.has(listed.revision).await? {
                    // It was collected or removed meanwhile.
                    self.set_marks(&version, &new, &[]).await?;
                } else {
                    verified.damaged.extend(found.damaged.into_iter().map(|damaged| (listed.revision, damaged)));
                }
                before = parts;
            }
        }
        self.verify_received(&versions, pace, &mut verified).await?;
        Ok(verified)
    }

    /// Does the same with received versions, which have nothing in common with others.
    async fn verify_received(
        &self,
        versions: &Versions,
        pace: &Pace,
        verified: &mut VerifiedVersions,
    ) -> ResourceResult<()> {
        let path = versions.path();
        for received in versions.received().await? {
            let revision = received.revision();
            let version = match self.received_version(path, &received).await {
                Err(error) if error.is_damage() => Err(DamagedPart { part: None, detail: error.to_string() }),
                version => Ok(version?),
            };
            let damaged = match &version {
                Ok(version) => {
                    let found = self.verify_parts(version, &Part::ALL, pace).await?;
                    verified.bytes += found.bytes;
                    found.damaged
                }
                Err(damaged) => vec![damaged.clone()],
            };
            if damaged.is_empty() || self.versions(path).await?.has(revision).await? {
                verified.damaged.extend(damaged.into_iter().map(|damaged| (revision, damaged)));
            } else if let Ok(version) = version {
                // It was removed meanwhile.
                self.set_marks(&version, &Part::ALL, &[]).await?;
            }
        }
        Ok(())
    }

    /// The SHA-256 of a resource's bytes. After a passing failure, reading continues where it broke
    /// off.
    async fn sha256_of(&self, resource: &Resource, binary: &Binary, pace: &Pace) -> ObjectsResult<[u8; 32]> {
        let (mut hasher, mut at, mut tries) = (Sha256::new(), 0, Tries::default());
        loop {
            let mut read = async || {
                let call = self.heads.call(Class::Content);
                let mut pieces = self.read_content(call.once(), resource, binary, at..binary.len_bytes).await?;
                let mut next = pieces.next().await;
                while let Some(piece) = next.transpose()? {
                    let len_bytes = piece.len() as u64;
                    let mut hashing = std::mem::take(&mut hasher);
                    let hash = move || {
                        hashing.update(&piece);
                        hashing
                    };
                    // The disk reads the next piece while a processor hashes this one.
                    let (hashed, read) = join(self.heads.surroundings().compute.run(hash), pieces.next()).await;
                    hasher = hashed?;
                    at += len_bytes;
                    pace.took(len_bytes).await;
                    next = read;
                }
                Ok(())
            };
            match read().await {
                Ok(()) => return Ok(hasher.finalize().into()),
                Err(error) => {
                    let error: heads::error::ObjectsError = error;
                    if !error.is_passing() || !tries.again().await {
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Some resources, from the beginning or from an earlier page's `next`. This walks over the
    /// stored partitions, so it uses the same memory however many resources there are. Includes
    /// resources whose heads cannot be read.
    #[boxed]
    pub async fn resources(&self, from: Option<Bytes>) -> ObjectsResult<ResourcePage> {
        let walk = async || {
            let call = self.heads.call(Class::Description);
            Ok(self.heads.store().walk(call, Table::Objects, from.clone(), WALKED).await?)
        };
        let walked = self.heads.retry_transient(walk).await?;
        let (partitions, paths): (Vec<_>, Vec<_>) = walked
            .partitions
            .into_iter()
            .filter_map(|partition| keys::resource_of_partition(&partition).map(|path| (partition, path)))
            .unzip();
        let heads = self.heads.retry_transient(|| self.heads.heads_at(&partitions, Strength::Usual)).await?;
        let mut page = ResourcePage { paths: Vec::with_capacity(paths.len()), next: walked.next };
        for (path, head) in paths.into_iter().zip(heads) {
            match head {
                Ok(head) if head.as_ref().is_none_or(|row| row.head.live_resource().is_none()) => {}
                Err(error) if !error.is_damage() => return Err(error),
                _ => page.paths.push(path),
            }
        }
        Ok(page)
    }
}

//! A container with its contents as a ZIP, made while it is sent, as they are or as of a time: bytes
//! under their names, descriptions in Turtle beside them.
//!
//! A container is a folder. Its description is `fcr%3Ametadata.ttl` in it, and those of its
//! children are `fcr%3Ametadata/<name>.ttl`: no resource has a name with this prefix. Names are
//! percent-encoded as in addresses.

use std::io;

use axum::BoxError;
use axum::body::Body;
use axum::response::Response;
use budget::Party;
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use heads::ListToken;
use heads::VOLUMES;
use heads::{ObjectsError, ResourcePath, RevisionId};
use http::{HeaderValue, Method, StatusCode, header};
use library::Library;
use pack::StreamedZip;
use rdf::Syntax;
use repository::{Child, Kind, PastMembers, Resource, ResourceError, ResourceResult};
use tempfile::SpooledTempFile;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use crate::address::{Site, encoded};
use crate::errors::LdpError;
use crate::format::ZIP;
use crate::held::share_max;
use crate::query::{self, Parameters};
use crate::request::{LdpRequest, empty, unsent};
use crate::stored::{expected_bytes, kept_description, map};
use crate::{disposition, managed};

/// Default and greatest depth of an archive: the greatest depth of paths.
const DEPTH_MAX: usize = 64;

/// Children that are listed together.
const PAGE_CHILDREN: usize = 256;

/// Children whose heads and small descriptions are read ahead.
const READ_AHEAD: usize = 4;

/// Bytes that are sent at a time.
const PIECE_BYTES: usize = 64 << 10;

/// Pieces that wait for the client.
const PIECES_WAITING: usize = 4;

/// Bytes of the central directory that are kept in memory; what is more goes to a temporary file.
const CENTRAL_MEMORY_BYTES: usize = 1 << 20;

/// Most omitted resources that the archive names.
const LEFT_OUT_NAMED_MAX: usize = 1_000;

/// The entry that names omitted resources, as in archives of volumes.
const ERRORS: &str = "ERROR.err";

/// Why an archive ends early.
#[derive(Debug, Error)]
enum ArchiveError {
    #[error(transparent)]
    Ldp(#[from] LdpError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error("the archive could not be written: {0}")]
    Write(#[from] io::Error),
    /// The client is gone.
    #[error("the client went away")]
    Gone,
}

impl LdpRequest {
    /// Sends a container as an archive, without a length and ranges: as it is, or a version of it as
    /// it was when exactly the revisions below `as_of` had been made. `depth` in the query limits
    /// how deep it goes.
    pub async fn get_archive(&self, container: &Resource, as_of: Option<RevisionId>) -> Result<Response, LdpError> {
        let depth_max = self.archive_depth()?;
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        self.describe(container, headers);
        headers.append(header::VARY, HeaderValue::from_static("accept, prefer"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(ZIP));
        let name = if container.path().is_root() { "repository" } else { container.path().name() };
        if let Ok(value) = HeaderValue::try_from(disposition::attachment(&format!("{name}.zip"))) {
            headers.insert(header::CONTENT_DISPOSITION, value);
        }
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let (pieces, taken) = mpsc::channel(PIECES_WAITING);
        let archive = Archive {
            library: self.library().clone(),
            party: self.party.clone(),
            site: self.site.clone(),
            zip: StreamedZip::new(SpooledTempFile::new(CENTRAL_MEMORY_BYTES)),
            pieces: pieces.clone(),
            left_out: LeftOut::default(),
            depth_max,
            as_of,
            deleted_versions: self.settings().deleted_versions,
        };
        let top = container.clone();
        // It only reads: when the client leaves, it is dropped with the response.
        let writing = AbortOnDropHandle::new(tokio::spawn(async move {
            match archive.write(top).await {
                Ok(()) | Err(ArchiveError::Gone) => {}
                Err(error) => {
                    tracing::warn!(%error, "an archive of a container ended early");
                    // The response ends with this error, unless the client is gone.
                    let _ = pieces.send(Err(error.into())).await;
                }
            }
        }));
        let body = stream::unfold((taken, writing), async |(mut taken, writing)| {
            Some((taken.recv().await?, (taken, writing)))
        });
        *response.body_mut() = Body::from_stream(body);
        Ok(response)
    }

    fn archive_depth(&self) -> Result<usize, LdpError> {
        let asked = Parameters::among(self.query.as_deref(), &query::OF_RESOURCES)?;
        Ok(asked.number("depth", DEPTH_MAX)?.unwrap_or(DEPTH_MAX))
    }
}

/// What an archive leaves out.
#[derive(Default)]
struct LeftOut {
    lines: Vec<String>,
    more: u64,
}

impl LeftOut {
    fn add(&mut self, line: String) {
        match self.lines.len() < LEFT_OUT_NAMED_MAX {
            true => self.lines.push(line),
            false => self.more += 1,
        }
    }

    fn text(&self) -> Option<String> {
        let mut text = self.lines.join("\n");
        if self.more > 0 {
            text += &format!("\nand {} more", self.more);
        }
        (!text.is_empty()).then(|| text + "\n")
    }
}

/// An archive that is being made.
struct Archive {
    library: Library,
    /// Whose share of the memory it takes.
    party: Party,
    site: Site,
    zip: StreamedZip<SpooledTempFile>,
    pieces: mpsc::Sender<Result<Bytes, BoxError>>,
    left_out: LeftOut,
    depth_max: usize,
    as_of: Option<RevisionId>,
    /// Whether versions of deleted resources are sent.
    deleted_versions: bool,
}

/// A container whose children are to come.
struct Folder {
    path: ResourcePath,
    /// Prefix of the names of its entries.
    prefix: String,
    depth: usize,
    listing: Listing,
}

/// Where the list of a container's children continues.
enum Listing {
    /// Among the present ones, after this one.
    Now(Option<ListToken>),
    /// Among those as of a time.
    Then(Box<PastMembers>),
}

impl Archive {
    async fn write(mut self, top: Resource) -> Result<(), ArchiveError> {
        let name = if top.path().is_root() { "repository".to_owned() } else { encoded_name(top.path()) };
        if top.path().is_root() {
            self.left_out.add(format!("sent by the data door: /{VOLUMES}"));
        }
        let mut waiting = vec![self.begin_folder(&top, format!("{name}/"), 1).await?];
        while let Some(folder) = waiting.pop() {
            let (rest, below) = self.some_children(folder).await?;
            // Depth first, so that at most one page of each level waits.
            waiting.extend(rest);
            waiting.extend(below);
        }
        if let Some(text) = self.left_out.text() {
            self.entry(ERRORS, text.as_bytes()).await?;
        }
        let Self { zip, pieces, .. } = self;
        for piece in zip.finish()? {
            pieces.send(Ok(piece?)).await.map_err(|_| ArchiveError::Gone)?;
        }
        Ok(())
    }

    async fn begin_folder(
        &mut self,
        container: &Resource,
        prefix: String,
        depth: usize,
    ) -> Result<Folder, ArchiveError> {
        let description = Description::read_ahead(&self.library, &self.site, container).await?;
        self.begin_folder_of(container, description, prefix, depth).await
    }

    async fn begin_folder_of(
        &mut self,
        container: &Resource,
        description: Description,
        prefix: String,
        depth: usize,
    ) -> Result<Folder, ArchiveError> {
        self.zip.directory(&prefix)?;
        self.describe(container, &format!("{prefix}fcr%3Ametadata.ttl"), description).await?;
        let listing = match self.as_of {
            None => Listing::Now(None),
            Some(below) => {
                let members = self.library.repository.members_as_of(container, below).await;
                Listing::Then(Box::new(members.map_err(LdpError::from)?))
            }
        };
        Ok(Folder { path: container.path().clone(), prefix, depth, listing })
    }

    /// Some children of a container, and where their list continues.
    async fn names(
        &self,
        path: &ResourcePath,
        listing: Listing,
    ) -> Result<(Vec<Child>, Option<Listing>), ArchiveError> {
        match listing {
            Listing::Now(after) => {
                let Some(container) = self.found(path).await? else { return Ok((Vec::new(), None)) };
                match self.library.repository.children(&container, after.as_ref(), PAGE_CHILDREN).await {
                    Err(ObjectsError::Gone(_)) => Ok((Vec::new(), None)),
                    Err(error) => Err(error.into()),
                    Ok(page) => Ok((page.children, page.next.map(|next| Listing::Now(Some(next))))),
                }
            }
            Listing::Then(mut members) => match members.more(PAGE_CHILDREN).await.map_err(LdpError::from)? {
                Some(children) => Ok((children, Some(Listing::Then(members)))),
                None => Ok((Vec::new(), None)),
            },
        }
    }

    /// Writes some children of a container. Returns where to continue, and the containers among
    /// them.
    async fn some_children(&mut self, folder: Folder) -> Result<(Option<Folder>, Vec<Folder>), ArchiveError> {
        let Folder { path, prefix, depth, listing } = folder;
        let (children, rest) = self.names(&path, listing).await?;
        let children = children.iter().filter_map(|child| path.child(&child.name).ok()).collect::<Vec<_>>();
        let (library, site) = (self.library.clone(), self.site.clone());
        let (as_of, deleted_versions) = (self.as_of, self.deleted_versions);
        let reads = children.into_iter().map(move |path| {
            let (library, site) = (library.clone(), site.clone());
            async move { ReadChild::read(&library, &site, path, as_of, deleted_versions).await }
        });
        let mut read = std::pin::pin!(ahead(reads));
        let mut below = Vec::new();
        while let Some(child) = read.next().await {
            let (child, description) = match child? {
                ReadChild::Found(child, description) => (child, description),
                ReadChild::Damaged(path) => {
                    self.left_out.add(format!("damaged: /{path}"));
                    continue;
                }
                ReadChild::VersionRemoved(path) => {
                    self.left_out.add(format!("this version of it was deleted: /{path}"));
                    continue;
                }
                ReadChild::Away(path) => {
                    if as_of.is_some_and(|below| !self.library.repository.knows_as_of(&path, below)) {
                        self.left_out.add(format!("its versions are not kept: /{path}"));
                    }
                    continue;
                }
            };
            let name = encoded_name(child.path());
            if let Kind::Container { .. } = child.kind() {
                let inner = format!("{prefix}{name}/");
                let folder = self.begin_folder_of(&child, description, inner, depth + 1).await?;
                let is_known = as_of.is_none_or(|below| self.library.repository.knows_as_of(child.path(), below));
                match (is_known, depth < self.depth_max) {
                    (true, true) => below.push(folder),
                    (true, false) => self.left_out.add(format!("too deep: the contents of /{}", child.path())),
                    (false, _) => self.left_out.add(format!("not kept: what /{} had in it then", child.path())),
                }
                continue;
            }
            self.describe(&child, &format!("{prefix}fcr%3Ametadata/{name}.ttl"), description).await?;
            if let Kind::Binary(binary) = child.kind() {
                if let Some(elsewhere) = binary.elsewhere() {
                    self.left_out.add(format!("stored elsewhere: /{} at {}", child.path(), elsewhere.url));
                    continue;
                }
                let mut content = match self.library.repository.content(&child, binary, 0..binary.len_bytes).await {
                    // Damage that is found later ends the archive. It is marked, and the next
                    // archive leaves it out.
                    Err(error) if error.is_damage() => {
                        self.left_out.add(format!("damaged: /{}", child.path()));
                        continue;
                    }
                    content => content?,
                };
                self.zip.begin(&format!("{prefix}{name}"), binary.len_bytes)?;
                while let Some(piece) = content.next().await {
                    self.deflate(piece?).await?;
                }
                self.zip.end()?;
            }
        }
        let rest = rest.map(|listing| Folder { path, prefix, depth, listing });
        Ok((rest, below))
    }

    /// A container that is still there.
    async fn found(&self, path: &ResourcePath) -> Result<Option<Resource>, ArchiveError> {
        match self.library.repository.resource(path).await {
            Ok(resource) => Ok(Some(resource)),
            Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(None),
            Err(error) => Err(ArchiveError::Ldp(error.into())),
        }
    }

    /// Adds a description, or names it if it is damaged.
    async fn describe(&mut self, of: &Resource, name: &str, description: Description) -> Result<(), ArchiveError> {
        // Only one large description is held at a time.
        let (text, _share) = match description {
            Description::Read(text) => (text, None),
            Description::Large => {
                let bytes = expected_bytes(of).min(share_max(&self.library));
                let share = self.library.memory.reserve(&self.party, bytes).await.map_err(LdpError::from)?;
                (turtle(&self.library, &self.site, of).await?, Some(share))
            }
        };
        match text {
            Some(text) => self.entry(name, &text).await,
            None => {
                self.left_out.add(format!("damaged: the description of /{}", of.path()));
                Ok(())
            }
        }
    }

    async fn entry(&mut self, name: &str, content: &[u8]) -> Result<(), ArchiveError> {
        self.zip.begin(name, content.len() as u64)?;
        self.zip.write(content)?;
        self.zip.end()?;
        self.send(PIECE_BYTES).await
    }

    /// Adds a piece of a content. Compressing takes time, so it runs on a blocking thread.
    async fn deflate(&mut self, piece: Bytes) -> Result<(), ArchiveError> {
        let idle = StreamedZip::new(SpooledTempFile::new(0));
        let mut zip = std::mem::replace(&mut self.zip, idle);
        let deflated = tokio::task::spawn_blocking(move || zip.write(&piece).map(|()| zip)).await;
        self.zip = deflated.map_err(io::Error::other)??;
        self.send(PIECE_BYTES).await
    }

    /// Sends what is ready, once it is at least this many bytes.
    async fn send(&mut self, bytes_min: usize) -> Result<(), ArchiveError> {
        if self.zip.ready_bytes() < bytes_min {
            return Ok(());
        }
        let piece = self.zip.take();
        self.pieces.send(Ok(piece)).await.map_err(|_| ArchiveError::Gone)
    }
}

/// The description of a resource for an archive.
enum Description {
    /// In Turtle; `None` if it is damaged.
    Read(Option<Bytes>),
    /// It is large, and is read when its turn comes.
    Large,
}

impl Description {
    /// Reads it, unless it is large.
    async fn read_ahead(library: &Library, site: &Site, resource: &Resource) -> Result<Self, ArchiveError> {
        match expected_bytes(resource) {
            0 => Ok(Self::Read(turtle(library, site, resource).await?)),
            _ => Ok(Self::Large),
        }
    }
}

/// Makes some reads, and returns what they find, in their order. The next ones run ahead, each on a
/// task of its own. A slow client takes nothing for a long time, and until then a request that
/// nobody polls would keep its place among all requests of the store.
fn ahead<T: Send + 'static>(
    reads: impl Iterator<Item = impl Future<Output = Result<T, ArchiveError>> + Send + 'static>,
) -> impl Stream<Item = Result<T, ArchiveError>> {
    // The iterator begins a read when the stream takes it.
    let reading = reads.map(|read| {
        let reading = AbortOnDropHandle::new(tokio::spawn(read));
        async move { reading.await.unwrap_or_else(|why| Err(io::Error::other(why).into())) }
    });
    stream::iter(reading).buffered(READ_AHEAD)
}

/// What reading a child gave.
enum ReadChild {
    /// The child with its description.
    Found(Box<Resource>, Description),
    /// It cannot be read.
    Damaged(ResourcePath),
    /// A client deleted the version that was in force then.
    VersionRemoved(ResourcePath),
    /// It was deleted since it was listed, or is not shown any more.
    Away(ResourcePath),
}

impl ReadChild {
    async fn read(
        library: &Library,
        site: &Site,
        path: ResourcePath,
        as_of: Option<RevisionId>,
        deleted_versions: bool,
    ) -> Result<Self, ArchiveError> {
        let found = match as_of {
            None => library.repository.resource(&path).await.map(Some),
            Some(below) => child_then(library, &path, below, deleted_versions).await,
        };
        match found {
            Ok(Some(resource)) => {
                let description = Description::read_ahead(library, site, &resource).await?;
                Ok(Self::Found(Box::new(resource), description))
            }
            Ok(None) => match was_removed(library, &path, as_of).await.map_err(LdpError::from)? {
                true => Ok(Self::VersionRemoved(path)),
                false => Ok(Self::Away(path)),
            },
            Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(Self::Away(path)),
            Err(ResourceError::Objects(error)) if error.is_damage() => Ok(Self::Damaged(path)),
            Err(error) => Err(LdpError::from(error).into()),
        }
    }
}

/// The version of a child that was in force as of a time.
async fn child_then(
    library: &Library,
    path: &ResourcePath,
    below: RevisionId,
    deleted_versions: bool,
) -> ResourceResult<Option<Resource>> {
    library.repository.versions_shown(path, deleted_versions).await?.in_force(below).await
}

/// Whether a client deleted the version of a child that was in force then.
async fn was_removed(library: &Library, path: &ResourcePath, as_of: Option<RevisionId>) -> ResourceResult<bool> {
    match as_of {
        Some(below) => library.repository.versions(path).await?.was_removed(below).await,
        None => Ok(false),
    }
}

fn encoded_name(path: &ResourcePath) -> String {
    encoded(path).rsplit('/').next().unwrap_or_default().to_owned()
}

/// The description of a resource, in Turtle; `None` if it is damaged.
async fn turtle(library: &Library, site: &Site, resource: &Resource) -> Result<Option<Bytes>, ArchiveError> {
    let mut graph = match kept_description(library, resource).await {
        Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => {
            tracing::warn!(path = %resource.path(), %error, "a damaged description is left out of an archive");
            return Ok(None);
        }
        graph => graph?,
    };
    graph.extend(managed::statements(resource));
    let shown = map(graph, |iri| site.shown(iri));
    let written = rdf::write(&shown, Syntax::Turtle, rdf::vocab::PREFIXES);
    Ok(Some(written.map_err(|error| LdpError::Internal(error.to_string()))?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use futures::FutureExt;
    use futures::future::BoxFuture;
    use tokio::sync::oneshot;
    use tokio::time::timeout;

    use super::*;

    /// A bound against hanging, not a promise of speed.
    const PATIENCE: Duration = Duration::from_secs(30);

    type Read = BoxFuture<'static, Result<u8, ArchiveError>>;

    #[tokio::test]
    async fn what_is_read_ahead_is_read_although_a_client_takes_nothing() {
        let (answer, answered) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let second = async move {
            answered.await.unwrap();
            end.send(()).unwrap();
            Ok(2)
        };
        let reads: Vec<Read> = vec![async { Ok(1) }.boxed(), second.boxed()];
        let mut read = std::pin::pin!(ahead(reads.into_iter()));
        assert_eq!(read.next().await.unwrap().unwrap(), 1);
        // The client takes nothing from here on, and the store answers.
        answer.send(()).unwrap();
        timeout(PATIENCE, ended).await.expect("the read waits for the client").unwrap();
        assert_eq!(read.next().await.unwrap().unwrap(), 2);
        assert!(read.next().await.is_none());
    }
}

//! The resources in an object, with their versions.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use super::header::{HEADER_BYTES_MAX, Header, Kind};
use super::{HEADERS, REPOSITORY, path_of};
use crate::about::{ARCHIVAL_GROUP, About, disposition};
use crate::archived::{ArchivedState, ArchivedVersion};
use crate::bagit::text::Algorithm;
use crate::ocfl::inventory::Version;
use crate::ocfl::{Content, Object};
use crate::read::{ReadResult, invalid, read_small};

/// The most bytes of an ACL that is kept.
const ACL_BYTES_MAX: u64 = 1 << 20;

/// The start of a digest in a header.
const SHA_512: &str = "urn:sha-512:";

/// What Fedora stores in an object.
#[derive(Debug, Default)]
pub struct FedoraObject {
    /// The resources, a container before those in it.
    pub resources: Vec<FedoraResource>,
    /// The ACLs.
    pub acls: Vec<Acl>,
    /// The path of the Archival Group, if it is one.
    pub group: Option<String>,
}

/// A resource with its versions.
#[derive(Debug)]
pub struct FedoraResource {
    /// Its path from the root, decoded.
    pub path: String,
    /// The path of the container that it is in; `None` for the root.
    pub above: Option<String>,
    /// Its versions, oldest first. Their times have nanoseconds.
    pub versions: Vec<ArchivedVersion>,
    /// Whether it is deleted now.
    pub is_deleted: bool,
    /// Who created it, and who changed it last.
    pub people: Option<(Option<String>, Option<String>)>,
}

/// An ACL as it is now.
#[derive(Debug, PartialEq, Eq)]
pub struct Acl {
    /// The path of the resource that it is of.
    pub of: String,
    /// When it was changed last.
    pub modified: Option<String>,
    /// Its statements, as N-Triples.
    pub statements: String,
}

/// Whether an object has headers of Fedora in any version.
pub fn has_headers(object: &Object) -> bool {
    let mut paths = object.versions().into_iter().flat_map(|version| version.state.values().flatten());
    paths.any(|path| path.starts_with(HEADERS))
}

/// A header with the digest of its file.
type Read = (Vec<u8>, Rc<Header>);

/// The headers of a version, by the resources that they are of.
#[derive(Default)]
struct Headers {
    /// Of containers and binaries.
    resources: BTreeMap<String, Read>,
    /// Of descriptions, by the binaries that they are of.
    descriptions: HashMap<String, Read>,
    acls: BTreeMap<String, Rc<Header>>,
}

impl FedoraObject {
    /// Reads the resources of an object.
    ///
    /// # Errors
    /// [`ReadError`](crate::read::ReadError) if it is not as Fedora writes it, or has changed since
    /// its files were checked.
    pub fn read(object: &Object) -> ReadResult<Self> {
        let mut reader = Reader { object, known: HashMap::new() };
        let mut resources: BTreeMap<String, FedoraResource> = BTreeMap::new();
        let mut seen: HashMap<String, (Vec<u8>, Option<Vec<u8>>)> = HashMap::new();
        let (mut newest, mut is_group) = (None, false);
        for version in object.versions() {
            let files = object.files(version);
            let headers = reader.headers(version, &files)?;
            for (path, (digest, header)) in &headers.resources {
                is_group |= header.is_group(object);
                let description = headers.descriptions.get(path);
                let digests = (digest.clone(), description.map(|(digest, _)| digest.clone()));
                if seen.insert(path.clone(), digests.clone()) == Some(digests) {
                    continue;
                }
                let description = description.map(|(_, header)| header.as_ref());
                let made = reader.version(path, &version.created, header, description, &files)?;
                let resource = resources.entry(path.clone()).or_insert_with(|| FedoraResource::new(path));
                resource.is_deleted = header.deleted;
                if header.created_by.is_some() || header.last_modified_by.is_some() {
                    resource.people = Some((header.created_by.clone(), header.last_modified_by.clone()));
                }
                // A resource that was never versioned before it was deleted has no state.
                if made.state.is_some() || !resource.versions.is_empty() {
                    resource.versions.push(made);
                }
            }
            for (path, resource) in &mut resources {
                if resource.is_deleted || headers.resources.contains_key(path) {
                    continue;
                }
                resource.is_deleted = true;
                // If it comes back, that is a version, also if it has not changed.
                seen.remove(path);
                if !resource.versions.is_empty() {
                    resource.versions.push(ArchivedVersion { created: version.created.clone(), state: None });
                }
            }
            newest = Some((files, headers));
        }
        let Some((files, headers)) = newest else { return Ok(Self::default()) };
        let own = path_of(object.id());
        let other = resources.keys().find(|path| !is_group && Some(path.as_str()) != own);
        if let Some(other) = other {
            return Err(reader.wrong(format!("it is no Archival Group, and has /{other}, which is another resource")));
        }
        Ok(Self {
            resources: resources.into_values().collect(),
            group: own.filter(|_| is_group).map(str::to_owned),
            acls: reader.acls(&headers, &files)?,
        })
    }
}

impl FedoraResource {
    fn new(path: &str) -> Self {
        let above = (!path.is_empty()).then(|| path.rsplit_once('/').map_or("", |(above, _)| above).to_owned());
        Self { path: path.to_owned(), above, versions: Vec::new(), is_deleted: false, people: None }
    }
}

/// Reads an object.
struct Reader<'a> {
    object: &'a Object,
    /// Headers by the digests of their files.
    known: HashMap<Vec<u8>, Rc<Header>>,
}

impl Reader<'_> {
    fn wrong(&self, why: impl Into<String>) -> crate::read::ReadError {
        invalid(self.object.id(), why)
    }

    fn headers(&mut self, version: &Version, files: &BTreeMap<String, Content>) -> ReadResult<Headers> {
        let mut headers = Headers::default();
        for name in version.state.values().flatten().filter(|name| name.starts_with(HEADERS)) {
            let Some(file) = files.get(name) else { continue };
            let header = self.header(name, file)?;
            let kind = header.kind();
            let of = match kind {
                Some(Kind::Container | Kind::Binary) => Some(header.id.as_str()),
                Some(Kind::Description | Kind::Acl) => header.parent.as_deref(),
                None => None,
            };
            let Some(path) = of.and_then(path_of) else {
                return Err(self.wrong(format!("{name}: it is of no resource that is known here")));
            };
            // An object has what is below its own identifier.
            let is_own = header.id == self.object.id()
                || header.id.strip_prefix(self.object.id()).is_some_and(|rest| rest.starts_with('/'));
            if !is_own {
                return Err(self.wrong(format!("{name}: it is of a resource of another object")));
            }
            let (path, read) = (path.to_owned(), (file.digest.clone(), header));
            let is_second = match kind {
                Some(Kind::Container | Kind::Binary) => headers.resources.insert(path, read).is_some(),
                Some(Kind::Description) => headers.descriptions.insert(path, read).is_some(),
                Some(Kind::Acl) => headers.acls.insert(path, read.1).is_some(),
                None => false,
            };
            if is_second {
                return Err(self.wrong(format!("{name}: there are two for one resource")));
            }
        }
        if headers.resources.is_empty() && !files.is_empty() {
            return Err(self.wrong("a version has files and no header of Fedora"));
        }
        Ok(headers)
    }

    fn header(&mut self, name: &str, file: &Content) -> ReadResult<Rc<Header>> {
        if let Some(header) = self.known.get(&file.digest) {
            return Ok(header.clone());
        }
        let text = self.checked(name, file, HEADER_BYTES_MAX)?;
        let header: Header = serde_json::from_slice(&text).map_err(|error| self.wrong(format!("{name}: {error}")))?;
        let header = Rc::new(header);
        self.known.insert(file.digest.clone(), header.clone());
        Ok(header)
    }

    /// The bytes of a small file, which have its digest.
    fn checked(&self, name: &str, file: &Content, max_bytes: u64) -> ReadResult<Vec<u8>> {
        let bytes = read_small(&file.place, name, max_bytes)?;
        let mut digest = self.object.algorithm().begin();
        digest.update(&bytes);
        match digest.finalize().to_vec() == file.digest {
            true => Ok(bytes),
            false => Err(invalid(file.place.display().to_string(), "it has changed since it was checked")),
        }
    }

    /// The version of a resource that its header is of.
    fn version(
        &self,
        path: &str,
        created: &str,
        header: &Header,
        description: Option<&Header>,
        files: &BTreeMap<String, Content>,
    ) -> ReadResult<ArchivedVersion> {
        let wrong = |why: &str| self.wrong(format!("{}: {why}", header.id));
        if header.deleted {
            let deleted = header.last_modified_date.as_deref().unwrap_or(created);
            return Ok(ArchivedVersion { created: deleted.to_owned(), state: None });
        }
        let file = |header: &Header| {
            let name = header.content_path.as_deref();
            let file =
                name.and_then(|name| files.get(name)).ok_or_else(|| wrong("its bytes or statements are missing"))?;
            let said = header.digests.iter().filter_map(|digest| digest.strip_prefix(SHA_512));
            let mut others = said.filter(|said| !said.eq_ignore_ascii_case(&hex::encode(&file.digest)));
            match self.object.algorithm() == Algorithm::Sha512 && others.next().is_some() {
                true => Err(wrong("its header has another digest than its bytes or statements")),
                false => Ok(file.clone()),
            }
        };
        let is_binary = header.kind() == Some(Kind::Binary);
        let statements = match is_binary {
            false => file(header)?,
            true => file(description.ok_or_else(|| wrong("it has no description"))?)?,
        };
        let stored_at = header.external_url.as_deref().map(address);
        let bytes = match is_binary && stored_at.is_none() {
            true => Some(file(header)?),
            false => None,
        };
        let about = About {
            repository: REPOSITORY.to_owned(),
            path: path.to_owned(),
            types: [header.interaction_model.as_deref(), header.is_group(self.object).then_some(ARCHIVAL_GROUP)]
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect(),
            content_type: is_binary.then(|| media_type(header)),
            content_disposition: header
                .filename
                .as_deref()
                .filter(|name| is_binary && !name.is_empty())
                .map(disposition),
            last_modified: header.last_modified_date.clone(),
            stored_at,
            handling: header.external_handling.clone().filter(|handling| handling == "proxy"),
        };
        // Fedora names a version by the time of the object's version, a little after that in the header.
        let created = created.to_owned();
        Ok(ArchivedVersion { created, state: Some(ArchivedState { about, statements, bytes }) })
    }

    fn acls(&self, headers: &Headers, files: &BTreeMap<String, Content>) -> ReadResult<Vec<Acl>> {
        let mut acls = Vec::new();
        for (of, header) in headers.acls.iter().filter(|(_, header)| !header.deleted) {
            let name = header.content_path.as_deref().unwrap_or_default();
            let file =
                files.get(name).ok_or_else(|| self.wrong(format!("{}: its statements are missing", header.id)))?;
            let statements = String::from_utf8_lossy(&self.checked(name, file, ACL_BYTES_MAX)?).into_owned();
            acls.push(Acl { of: of.clone(), modified: header.last_modified_date.clone(), statements });
        }
        Ok(acls)
    }
}

fn media_type(header: &Header) -> String {
    header.mime_type.clone().filter(|said| !said.is_empty()).unwrap_or_else(|| "application/octet-stream".to_owned())
}

/// An address of bytes. Java writes those of files with one slash.
fn address(url: &str) -> String {
    match url.strip_prefix("file:/").filter(|rest| !rest.starts_with('/')) {
        Some(rest) => format!("file:///{rest}"),
        None => url.to_owned(),
    }
}

//! Addresses: which resource a path names, and which IRI a resource has. Resources are stored under
//! IRIs that begin with [`KEPT`], so the server's name can change.

use std::fmt::Write as _;

use hathi::VolumeId;
use heads::ResourcePath;
use heads::VOLUMES;
use heads::path::NAME_BYTES_MAX;
use http::uri::Authority;
use http::{Extensions, HeaderMap, Uri, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use rdf::Iri;
use repository::TransactionId;

use crate::SeenAs;
use crate::errors::LdpError;
use crate::settings::LdpSettings;
use crate::version_name::VersionName;

/// The last name in the address of the forms of a resource.
pub const FORMS: &str = "forms";

/// Prefix of the IRIs of this repository's resources in stored graphs.
const KEPT: &str = "penates:/";

/// Prefix of reserved names.
const RESERVED: &str = "fcr:";

/// The name of the list of versions.
pub const VERSIONS: &str = "fcr:versions";

/// The name of where transactions begin.
const TRANSACTIONS: &str = "fcr:tx";

/// Characters that are not encoded in a segment of a path (RFC 3986, section 3.3: `pchar`).
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'!')
    .remove(b'$')
    .remove(b'&')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'*')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=')
    .remove(b':')
    .remove(b'@');

/// The requested part of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Facet {
    /// The resource itself.
    Itself,
    /// The description of its bytes.
    Description,
    /// The check of its bytes.
    Fixity,
    /// Its tombstone.
    Tombstone,
    /// Where transactions begin.
    Transactions,
    /// A transaction.
    Transaction(TransactionId),
    /// The page that explains refusals.
    Constraints,
    /// The stylesheet of pages for people.
    Style,
    /// The search.
    Search,
    /// The forms that change it.
    Forms,
}

/// The requested states of a resource in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The current one.
    #[default]
    Present,
    /// The list of all, at `fcr:versions`.
    All,
    /// One of them, by its name below `fcr:versions`.
    Version(VersionName),
}

/// The target of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The resource.
    pub path: ResourcePath,
    /// The part of it.
    pub facet: Facet,
    /// The states of that.
    pub at: At,
}

impl At {
    /// The number of names that it takes in a path.
    fn names(self) -> usize {
        match self {
            Self::Present => 0,
            Self::All => 1,
            Self::Version(_) => 2,
        }
    }
}

impl Target {
    fn of_root(facet: Facet) -> Self {
        Self { path: ResourcePath::root(), facet, at: At::Present }
    }

    /// The part of a path behind the base, percent-encoded; with a slash at the end or without.
    pub fn parse(path: &str) -> Result<Self, LdpError> {
        let path = path.strip_prefix('/').unwrap_or(path);
        if path.is_empty() {
            return Ok(Self { path: ResourcePath::root(), facet: Facet::Itself, at: At::Present });
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        let mut names = Vec::new();
        for segment in path.split('/') {
            names.push(percent_decode_str(segment).decode_utf8().map_err(|_| LdpError::NotUtf8)?);
        }
        match &names[..] {
            [list] if list == TRANSACTIONS => return Ok(Self::of_root(Facet::Transactions)),
            [list, id] if list == TRANSACTIONS => {
                let id = TransactionId::parse(id).ok_or_else(|| LdpError::NoTransactionName(id.to_string()))?;
                return Ok(Self::of_root(Facet::Transaction(id)));
            }
            _ => {}
        }
        let at = match &names[..] {
            [.., list] if list == VERSIONS => At::All,
            [.., list, name] if list == VERSIONS => At::Version(name.parse()?),
            _ => At::Present,
        };
        names.truncate(names.len() - at.names());
        let facet = match names.last().map(|name| name.strip_prefix(RESERVED)) {
            Some(Some("metadata")) => Facet::Description,
            Some(Some("fixity")) => Facet::Fixity,
            Some(Some("tombstone")) => Facet::Tombstone,
            Some(Some(FORMS)) => Facet::Forms,
            Some(Some("constraints")) if names.len() == 1 => Facet::Constraints,
            Some(Some("style")) if names.len() == 1 => Facet::Style,
            Some(Some("search")) if names.len() == 1 => Facet::Search,
            _ => Facet::Itself,
        };
        if facet != Facet::Itself {
            names.pop();
        }
        if let Some(name) = names.iter().find(|name| name.starts_with(RESERVED)) {
            return Err(LdpError::ReservedName(name.to_string()));
        }
        if at != At::Present && !matches!(facet, Facet::Itself | Facet::Description) {
            return Err(LdpError::ReservedName(VERSIONS.to_owned()));
        }
        Ok(Self { path: ResourcePath::of_names(names.iter().map(AsRef::as_ref))?, facet, at })
    }
}

/// A valid name from the one that a client proposes, or from the beginning of a long one; `None` if
/// nothing is left of it.
pub fn wished_name(slug: &str) -> Option<String> {
    let decoded = percent_decode_str(slug.trim()).decode_utf8_lossy();
    let plain = |character: char| match character {
        '/' | '\\' | '?' | '#' | '%' => '-',
        character if character.is_whitespace() || character.is_control() => '-',
        character => character,
    };
    let name: String = decoded.chars().map(plain).collect();
    let name = name.trim_matches(['-', '.']);
    let name = name.strip_prefix(RESERVED).unwrap_or(name);
    let name = name[..name.floor_char_boundary(NAME_BYTES_MAX)].trim_end_matches(['-', '.']);
    (!name.is_empty()).then(|| name.to_owned())
}

/// How clients address this server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// Scheme, authority, and the path in front of all routes of the server.
    server: String,
    /// The same with the path of the repository, and with a slash at the end.
    root: String,
    /// Whether there is a search.
    has_search: bool,
}

impl Site {
    /// From the settings, or else from the request.
    pub fn of(
        settings: &LdpSettings,
        uri: &Uri,
        headers: &HeaderMap,
        extensions: &Extensions,
    ) -> Result<Self, LdpError> {
        let origin = match (&settings.origin, extensions.get::<SeenAs>().cloned().unwrap_or_default()) {
            (Some(origin), _) => origin.clone(),
            (None, SeenAs { encrypted, host }) => {
                let scheme = if encrypted { "https" } else { "http" };
                let host = host.map_or_else(|| authority(uri, headers), Ok)?;
                format!("{scheme}://{host}")
            }
        };
        let server = format!("{origin}{}", settings.mount);
        let root = format!("{server}{}/", settings.base);
        Ok(Self { server, root, has_search: settings.search.is_kept })
    }

    /// The address of the search; `None`: no index is kept.
    pub fn search(&self) -> Option<String> {
        self.has_search.then(|| self.iri_of(&ResourcePath::root(), "search"))
    }

    /// The address of the server, without a slash at the end.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The IRI of the container of volumes as of a time.
    pub fn volumes_then(&self, name: VersionName) -> String {
        format!("{}{VOLUMES}/{VERSIONS}/{name}", self.root)
    }

    /// The IRI of a volume.
    pub fn volume_iri(&self, id: &VolumeId) -> String {
        kept_volume(id).replacen(KEPT, &self.root, 1)
    }

    /// The address of a volume at the data door.
    pub fn data_iri(&self, id: &VolumeId) -> String {
        kept_volume(id).replacen(KEPT, &format!("{}/", self.server), 1)
    }

    /// The IRI of a resource.
    pub fn iri(&self, path: &ResourcePath) -> String {
        format!("{}{}", self.root, encoded(path))
    }

    /// The IRI of a resource, as the base of relative ones.
    pub fn base(&self, path: &ResourcePath) -> Result<Iri, LdpError> {
        Iri::parse(self.iri(path)).map_err(|error| LdpError::Internal(error.to_string()))
    }

    /// The IRI of a part of a resource with a reserved name.
    pub fn iri_of(&self, path: &ResourcePath, reserved: &str) -> String {
        match path.is_root() {
            true => format!("{}{RESERVED}{reserved}", self.root),
            false => format!("{}{}/{RESERVED}{reserved}", self.root, encoded(path)),
        }
    }

    /// The IRI of a target.
    pub fn iri_of_target(&self, target: &Target) -> String {
        let mut iri = match target.facet {
            Facet::Description => self.iri_of(&target.path, "metadata"),
            _ => self.iri(&target.path),
        };
        if target.at != At::Present {
            iri = format!("{}/{VERSIONS}", iri.trim_end_matches('/'));
        }
        if let At::Version(name) = target.at {
            iri = format!("{iri}/{name}");
        }
        iri
    }

    /// The stored IRI of something in this repository; `None` if it is not of this repository.
    pub fn kept(&self, iri: &str) -> Option<String> {
        let rest = match iri.strip_prefix(&self.root) {
            Some(rest) => rest,
            None => {
                let rest = iri.strip_prefix(self.root.trim_end_matches('/'))?;
                rest.is_empty().then_some(rest).or_else(|| rest.starts_with(['#', '?']).then_some(rest))?
            }
        };
        Some(format!("{KEPT}{rest}"))
    }

    /// The public IRI for a stored one; `None` if it is not of this repository.
    pub fn shown(&self, iri: &str) -> Option<String> {
        Some(format!("{}{}", self.root, iri.strip_prefix(KEPT)?))
    }

    /// The path of an address below the repository, decoded, as far as it is one. It may have a
    /// `*`. `None` if the address is not of this repository, or not UTF-8 once it is decoded.
    pub fn decoded(&self, address: &str) -> Option<String> {
        let kept = self.kept(address)?;
        let path = kept.strip_prefix(KEPT)?;
        Some(percent_decode_str(path).decode_utf8().ok()?.into_owned())
    }

    /// An error whose statements have the addresses that clients know.
    pub fn shown_error(&self, error: LdpError) -> LdpError {
        match error {
            LdpError::Constraint { why, statements } => {
                let statements = statements.iter().map(|statement| self.shown_in(statement)).collect();
                LdpError::Constraint { why, statements }
            }
            other => other,
        }
    }

    /// A statement as N-Triples, with public IRIs.
    fn shown_in(&self, statement: &str) -> String {
        statement.replace(&format!("<{KEPT}"), &format!("<{}", self.root))
    }
}

/// The stored IRI of a resource.
pub fn kept_iri(path: &ResourcePath) -> String {
    format!("{KEPT}{}", encoded(path))
}

/// The stored IRI of the container of volumes.
pub fn kept_volumes() -> String {
    format!("{KEPT}{VOLUMES}")
}

/// The stored IRI of a volume, with its cleaned id, which needs no slash.
pub fn kept_volume(id: &VolumeId) -> String {
    format!("{KEPT}{VOLUMES}/{}", utf8_percent_encode(&id.cleaned().to_string(), SEGMENT))
}

/// The resource that a stored IRI names, or names a part of; `None` if it is not of this
/// repository.
pub fn path_of_kept(iri: &str) -> Option<ResourcePath> {
    // An address with two slashes there is refused, and names no resource either.
    let rest = iri.strip_prefix(KEPT).filter(|rest| !rest.starts_with('/'))?;
    let end = rest.find(['#', '?']).unwrap_or(rest.len());
    let target = Target::parse(&rest[..end]).ok()?;
    (target.facet == Facet::Itself && target.at == At::Present).then_some(target.path)
}

/// The names of a path, percent-encoded.
pub fn encoded(path: &ResourcePath) -> String {
    let mut text = String::with_capacity(path.as_str().len());
    for (n, name) in path.names().enumerate() {
        // Writing into a string never fails.
        let _ = write!(text, "{}{}", if n > 0 { "/" } else { "" }, utf8_percent_encode(name, SEGMENT));
    }
    text
}

/// Host and port as the client knows them (RFC 9110, section 7.2).
fn authority(uri: &Uri, headers: &HeaderMap) -> Result<Authority, LdpError> {
    if let Some(authority) = uri.authority() {
        return Ok(authority.clone());
    }
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok()).unwrap_or("localhost");
    host.parse().map_err(|_| LdpError::Host(host.to_owned()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    fn site() -> Site {
        let headers = HeaderMap::from_iter([(header::HOST, "example.org:81".parse().unwrap())]);
        Site::of(&LdpSettings::default(), &"/rest/a".parse().unwrap(), &headers, &Extensions::new()).unwrap()
    }

    #[test]
    fn a_path_names_a_resource_its_description_or_its_tombstone() {
        for (text, path, facet) in [
            ("", "", Facet::Itself),
            ("/", "", Facet::Itself),
            ("/a/b", "a/b", Facet::Itself),
            ("/a/b/", "a/b", Facet::Itself),
            ("/a%20b/%C3%BC", "a b/ü", Facet::Itself),
            ("/a/fcr:metadata", "a", Facet::Description),
            ("/a/fcr:fixity", "a", Facet::Fixity),
            ("/a/fcr%3Atombstone", "a", Facet::Tombstone),
            ("/fcr:constraints", "", Facet::Constraints),
            ("/fcr:forms", "", Facet::Forms),
            ("/a/fcr:forms", "a", Facet::Forms),
        ] {
            let target = Target { path: path.parse().unwrap(), facet, at: At::Present };
            assert_eq!(Target::parse(text).unwrap(), target, "{text}");
        }
    }

    #[test]
    fn a_path_names_the_versions_of_a_resource_or_of_a_description_or_one_of_them() {
        let version = || At::Version("20250615150640".parse().unwrap());
        for (text, path, facet, at) in [
            ("/fcr:versions", "", Facet::Itself, At::All),
            ("/a/fcr:versions/", "a", Facet::Itself, At::All),
            ("/a/fcr%3Aversions/20250615150640", "a", Facet::Itself, version()),
            ("/a/fcr:metadata/fcr:versions", "a", Facet::Description, At::All),
            ("/a/fcr:metadata/fcr:versions/20250615150640", "a", Facet::Description, version()),
        ] {
            assert_eq!(Target::parse(text).unwrap(), Target { path: path.parse().unwrap(), facet, at }, "{text}");
        }
        assert_eq!(path_of_kept("penates:/a/fcr:versions/20250615150640"), None);
    }

    #[test]
    fn path_tricks_are_refused() {
        for text in [
            "//",
            "/a//b",
            "/a/../b",
            "/a/%2e%2E/b",
            "/a%2Fb",
            "/a/%FF",
            "/a%00",
            "/./a",
            "/fcr:x/a",
            "/fcr:x",
            "/a/fcr:versions/x/y",
            "/a/fcr:versions/x",
            "/a/fcr:tombstone/fcr:versions",
            "/fcr:versions/a/b",
        ] {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_proposed_name_becomes_one_valid_name() {
        for (slug, name) in [
            ("letters", Some("letters")),
            ("My first letter", Some("My-first-letter")),
            ("a%2Fb/../c", Some("a-b-..-c")),
            ("..", None),
            ("  ", None),
            ("fcr:tx", Some("tx")),
            ("%C3%BCber", Some("über")),
        ] {
            assert_eq!(wished_name(slug).as_deref(), name, "{slug}");
        }
        let long = format!("{}ü{}", "a".repeat(NAME_BYTES_MAX - 1), "b".repeat(100));
        assert_eq!(wished_name(&long), Some("a".repeat(NAME_BYTES_MAX - 1)));
    }

    #[test]
    fn only_addresses_below_the_base_belong_to_this_repository() {
        let site = site();
        assert_eq!(site.kept("http://example.org:81/rest/a#b").as_deref(), Some("penates:/a#b"));
        assert_eq!(site.kept("http://example.org:81/rest").as_deref(), Some("penates:/"));
        for other in ["http://example.org:81/restaurant", "http://example.org/rest/a", "urn:x"] {
            assert_eq!(site.kept(other), None, "{other}");
        }
        assert_eq!(path_of_kept("penates:/a/b#c"), Some("a/b".parse().unwrap()));
        assert_eq!(path_of_kept("http://example.org/a"), None);
        let with_two_slashes = site.kept("http://example.org:81/rest//example.com/a").unwrap();
        assert_eq!(path_of_kept(&with_two_slashes), None);
    }

    proptest! {
        #[test]
        fn every_resource_is_found_under_its_iri(names in prop::collection::vec("[^/\\p{Cc}.]{1,8}", 1..5)) {
            prop_assume!(names.iter().all(|name| !name.starts_with("fcr:")));
            let path = ResourcePath::of_names(names.iter().map(String::as_str)).unwrap();
            let iri = site().iri(&path);
            let target = Target::parse(iri.strip_prefix("http://example.org:81/rest").unwrap()).unwrap();
            prop_assert_eq!(&target.path, &path);
            let kept = site().kept(&iri).unwrap();
            prop_assert_eq!(path_of_kept(&kept), Some(path));
            prop_assert_eq!(site().shown(&kept), Some(iri));
        }
    }
}

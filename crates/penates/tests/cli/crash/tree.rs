//! The state that a writer expects of its part of the repository, and how the stored state is read.

use std::collections::{BTreeMap, BTreeSet};

use http::header::{ACCEPT, LINK, LOCATION};
use http::{Method, Request, StatusCode};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use penates::client::{self, Client, ClientError};

use crate::harness::unzip;

/// The predicate of the statements of a version.
pub const PART: &str = "<http://example.org/part>";

/// One in this number of versions of a description is so large that it takes several rows.
const LARGE_EVERY: u32 = 16;
/// The characters in the name of a version that are its second.
const SECOND_LEN: usize = 14;

/// The kind of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Container,
    Source,
    Binary,
}

/// The state at a path. A resource's content follows from its version, so that half of one is
/// recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing, and there never was anything.
    Absent,
    /// A resource. Version 0 of a graph has no statements.
    There(Kind, u32),
    /// It was deleted, or its container was.
    Gone,
}

/// Paths from the root of the repository, without a leading slash; children come after their
/// containers.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    states: BTreeMap<String, State>,
    /// All resources that ever were at each path, in the order of their writes.
    past: BTreeMap<String, Vec<State>>,
    /// What was deleted by the last deletion of each path: the resource, and everything in it.
    deleted: BTreeMap<String, Vec<(String, State)>>,
}

impl Tree {
    pub fn state(&self, path: &str) -> State {
        self.states.get(path).copied().unwrap_or(State::Absent)
    }

    pub fn set(&mut self, path: &str, state: State) {
        self.states.insert(path.to_owned(), state);
        if matches!(state, State::There(..)) {
            self.past.entry(path.to_owned()).or_default().push(state);
        }
    }

    /// Sets the state of a resource and of everything in it.
    pub fn set_with_content(&mut self, path: &str, state: State) {
        let inside = format!("{path}/");
        let is_inside = |known: &&String| *known == path || known.starts_with(&inside);
        let paths: Vec<String> = self.states.keys().filter(is_inside).cloned().collect();
        if state == State::Gone {
            let states = paths.iter().map(|inside| (inside.clone(), self.state(inside)));
            let there = states.filter(|(_, state)| matches!(state, State::There(..))).collect();
            self.deleted.insert(path.to_owned(), there);
        }
        paths.iter().for_each(|path| self.set(path, state));
    }

    /// The kind of a resource that was deleted.
    pub fn deleted_kind(&self, path: &str) -> Option<Kind> {
        self.deleted.get(path)?.iter().find_map(|(deleted, state)| match state {
            State::There(kind, _) if deleted == path => Some(*kind),
            _ => None,
        })
    }

    /// Brings back a deleted resource, with everything that was deleted with it. Of what was deleted
    /// before that, not even tombstones come back.
    pub fn bring_back(&mut self, path: &str) {
        self.set_with_content(path, State::Absent);
        for (path, state) in self.deleted.remove(path).unwrap_or_default() {
            self.set(&path, state);
        }
    }

    /// Removes paths at which nothing existed, or nothing is known any more.
    pub fn forget_absent(&mut self) {
        self.states.retain(|_, state| *state != State::Absent);
    }

    /// What there is now, without what was there before.
    pub fn present(&self) -> Self {
        let there = self.iter().filter(|(_, state)| matches!(state, State::There(..)));
        Self { states: there.map(|(path, state)| (path.to_owned(), state)).collect(), ..Self::default() }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, State)> {
        self.states.iter().map(|(path, state)| (path.as_str(), *state))
    }

    /// Everything that was ever written, by path.
    pub fn past(&self) -> impl Iterator<Item = (&str, &[State])> {
        self.past.iter().map(|(path, states)| (path.as_str(), &states[..]))
    }

    /// The paths of existing resources of the wanted kind.
    pub fn there(&self, is_wanted: impl Fn(Kind) -> bool) -> Vec<String> {
        let wanted = |state| matches!(state, State::There(kind, _) if is_wanted(kind));
        self.iter().filter(|(_, state)| wanted(*state)).map(|(path, _)| path.to_owned()).collect()
    }

    /// The paths of a container's children.
    pub fn children(&self, container: &str) -> BTreeSet<String> {
        let children =
            self.iter().filter(|(path, _)| path.rsplit_once('/').is_some_and(|(above, _)| above == container));
        children.filter(|(_, state)| matches!(state, State::There(..))).map(|(path, _)| path.to_owned()).collect()
    }

    /// Resources that were deleted themselves, and so have a tombstone to delete.
    pub fn tombstones(&self) -> Vec<String> {
        let above = |path: &str| path.rsplit_once('/').map(|(above, _)| self.state(above));
        let is_tombstone = |(path, state): &(&str, State)| {
            *state == State::Gone && matches!(above(path), Some(State::There(Kind::Container, _)))
        };
        self.iter().filter(is_tombstone).map(|(path, _)| path.to_owned()).collect()
    }
}

/// The values of the statements of a version of a graph.
fn parts(version: u32) -> BTreeSet<String> {
    let count = match version {
        0 => 0,
        version if version % LARGE_EVERY == 0 => 2_000,
        version => 1 + version % 4,
    };
    (0..count).map(|part| format!("{version}.{part}.{}", filling())).collect()
}

/// What each part ends with.
fn filling() -> String {
    "x".repeat(60)
}

/// The version whose parts a graph has. Panics if some are missing.
fn version_of(path: &str, said: &BTreeSet<String>) -> u32 {
    let version = said.first().map_or(0, |part| part.split('.').next().unwrap().parse().unwrap());
    assert!(*said == parts(version), "{path} is half of version {version}: {} statements", said.len());
    version
}

/// The version whose bytes these are. Panics if some are missing.
fn version_of_bytes(path: &str, content: &[u8]) -> u32 {
    let version = content.first_chunk().map(|first| u32::from_be_bytes(*first)).unwrap();
    assert!(bytes(version) == content, "{path} is half of version {version}: {} bytes", content.len());
    version
}

/// The statements of a version of a graph about a subject, as N-Triples or Turtle.
pub fn statements(subject: &str, version: u32) -> String {
    parts(version).iter().map(|part| format!("{subject} {PART} \"{part}\" .\n")).collect()
}

/// The same as N-Quads.
pub fn quads(graph: &str, version: u32) -> String {
    parts(version).iter().map(|part| format!("{graph} {PART} \"{part}\" {graph} .\n")).collect()
}

/// The bytes of a version of a binary: few, as many as fit into a row, or more.
pub fn bytes(version: u32) -> Vec<u8> {
    let len = [700, 16 << 10, 200_000][version as usize % 3];
    let mut bytes: Vec<u8> = (0..len).map(|at: u32| (at ^ (at >> 8) ^ version).to_le_bytes()[0]).collect();
    bytes[..4].copy_from_slice(&version.to_be_bytes());
    bytes
}

/// The address of a path.
pub fn address(path: &str) -> String {
    format!("/rest/{path}")
}

/// The resource at a path, with its children.
pub struct Seen {
    pub state: State,
    pub children: BTreeSet<String>,
}

/// Reads the list of versions at a path, oldest first. Returns their paths.
pub async fn versions(client: &Client, path: &str) -> Vec<String> {
    let request = Request::builder().method(Method::GET).header(ACCEPT, "application/link-format");
    let list = format!("{}/fcr:versions?limit=10000", address(path));
    let response = client.ask(&list, request, client::empty()).await.unwrap();
    let body = client::whole(response).await.unwrap();
    let links = std::str::from_utf8(&body).unwrap().lines();
    let versions = links.filter(|link| link.contains("memento\"; datetime="));
    versions.map(|link| link.split('>').next().unwrap().split_once("/rest/").unwrap().1.to_owned()).collect()
}

/// The second in the name of a version.
pub fn second_of(version: &str) -> i64 {
    let name = version.rsplit('/').next().unwrap();
    let second = DateTime::strptime("%Y%m%d%H%M%S", &name[..SECOND_LEN]).unwrap();
    second.to_zoned(TimeZone::UTC).unwrap().timestamp().as_second()
}

/// A second as in headers.
pub fn written(second: i64) -> String {
    Timestamp::from_second(second).unwrap().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}

/// The path of the version that was in force at a time, as the resource itself says.
pub async fn version_at(client: &Client, path: &str, datetime: &str) -> String {
    let request = Request::builder().method(Method::GET).header("accept-datetime", datetime);
    let response = client.send(&address(path), request, client::empty()).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND, "{path} at {datetime}");
    response.headers()[LOCATION].to_str().unwrap().split_once("/rest/").unwrap().1.to_owned()
}

/// Reads the resource at a path. Panics if it is half visible.
pub async fn see(client: &Client, path: &str) -> Result<Seen, ClientError> {
    let nothing = |state| Ok(Seen { state, children: BTreeSet::new() });
    let request = Request::builder().method(Method::GET).header(ACCEPT, "application/n-triples, */*;q=0.1");
    let response = match client.ask(&address(path), request, client::empty()).await {
        Ok(response) => response,
        Err(error) if error.status() == Some(StatusCode::NOT_FOUND) => return nothing(State::Absent),
        Err(error) if error.status() == Some(StatusCode::GONE) => return nothing(State::Gone),
        Err(error) => return Err(error),
    };
    let types: Vec<_> = response.headers().get_all(LINK).iter().map(|link| link.to_str().unwrap().to_owned()).collect();
    let is = |class: &str| types.iter().any(|link| link.contains(&format!("ldp#{class}>; rel=\"type\"")));
    let kind = match (is("NonRDFSource"), is("BasicContainer")) {
        (true, _) => Kind::Binary,
        (_, true) => Kind::Container,
        _ => Kind::Source,
    };
    let body = client::whole(response).await?;
    if kind == Kind::Binary {
        return nothing(State::There(kind, version_of_bytes(path, &body)));
    }
    let text = std::str::from_utf8(&body).unwrap();
    let objects = |predicate: &str| -> BTreeSet<String> {
        let of_predicate = text.lines().filter_map(|line| line.split_once(predicate));
        let object = |object: &str| object.trim().trim_end_matches(" .").trim_matches(['"', '<', '>']).to_owned();
        of_predicate.map(|(_, rest)| object(rest)).collect()
    };
    let version = version_of(path, &objects(PART));
    let contained = objects("<http://www.w3.org/ns/ldp#contains>");
    let children = contained.iter().map(|iri| iri.split_once("/rest/").unwrap().1.trim_end_matches('/').to_owned());
    Ok(Seen { state: State::There(kind, version), children: children.collect() })
}

/// What an archive of a container at the top has in it. Panics if a resource is half in it, or if
/// it names anything as left out.
pub fn unpacked(archive: &[u8]) -> BTreeMap<String, State> {
    const DESCRIPTION: &str = "/fcr%3Ametadata";
    let entries = unzip(archive);
    let left_out = entries.get("ERROR.err").map(|text| String::from_utf8_lossy(text));
    assert_eq!(left_out, None);
    let graph = |path: &str, turtle: &[u8]| {
        let literals = std::str::from_utf8(turtle).unwrap().split('"').skip(1).step_by(2);
        let said = literals.filter(|text| text.ends_with(&filling())).map(str::to_owned).collect();
        version_of(path, &said)
    };
    let mut found = BTreeMap::new();
    for (name, content) in &entries {
        let described = name.strip_suffix(".ttl").and_then(|name| name.split_once(DESCRIPTION));
        let (path, state) = match described {
            Some((container, "")) => (container.to_owned(), State::There(Kind::Container, graph(container, content))),
            Some((container, child)) => {
                let path = format!("{container}{child}");
                // Beside bytes there is their description, which has no statements.
                if entries.contains_key(&path) {
                    continue;
                }
                let version = graph(&path, content);
                (path, State::There(Kind::Source, version))
            }
            None => (name.clone(), State::There(Kind::Binary, version_of_bytes(name, content))),
        };
        found.insert(path, state);
    }
    found
}

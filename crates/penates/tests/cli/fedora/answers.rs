//! What a server answers about resources and their versions, in a form in which Fedora and Penates can
//! be compared: addresses from the root on, statements of clients only, in an order of their own.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::server::Site;

/// Statements that each server makes itself, or in its own way, by what they contain.
const OF_SERVER: [&str; 8] = [
    "<http://fedora.info/definitions/v4/repository#",
    "<http://www.loc.gov/premis/rdf/v1#hasSize>",
    "<http://www.loc.gov/premis/rdf/v1#hasMessageDigest>",
    "<http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#hasMimeType>",
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://www.w3.org/ns/ldp#",
    "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://mementoweb.org/",
    "<http://www.w3.org/ns/ldp#contains>",
    "<http://www.iana.org/assignments/relation/describedby>",
];

/// Also statements about bytes.
const FILENAME: &str = "<http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#filename>";

/// What is answered about a resource.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub status: u16,
    pub state: Option<State>,
    /// The last version of each second, and how many there are in it.
    pub versions: BTreeMap<String, (usize, Option<State>)>,
}

/// A state of a resource.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    pub statements: Vec<String>,
    pub bytes: Option<String>,
    pub media_type: Option<String>,
}

/// The answers of a server about resources, by their paths.
pub fn answers(site: &Site, resources: &[(&str, bool)]) -> BTreeMap<String, Answer> {
    resources.iter().map(|(path, is_binary)| ((*path).to_owned(), answer(site, path, *is_binary))).collect()
}

/// The states of all versions of a resource, oldest first.
pub fn versions(site: &Site, path: &str, is_binary: bool) -> Vec<Option<State>> {
    names(site, path).iter().map(|name| version(site, path, name, is_binary)).collect()
}

fn answer(site: &Site, path: &str, is_binary: bool) -> Answer {
    let status = site.get(path, &["X-Print: head"]).0;
    let mut seconds: BTreeMap<String, (usize, String)> = BTreeMap::new();
    for name in names(site, path) {
        let second = seconds.entry(name[..14].to_owned()).or_default();
        *second = (second.0 + 1, name);
    }
    let versions = seconds.into_iter();
    let versions =
        versions.map(|(second, (count, name))| (second, (count, version(site, path, &name, is_binary)))).collect();
    let graph = if is_binary { format!("{}fcr:metadata", within(path)) } else { path.to_owned() };
    Answer { status, state: state(site, &graph, path, is_binary), versions }
}

/// The names of the versions of a resource, oldest first.
fn names(site: &Site, path: &str) -> Vec<String> {
    let list = site.get(&format!("{}fcr:versions", within(path)), &["Accept: application/link-format"]).1;
    let mementos = list.lines().filter(|line| line.contains("memento\"") && line.contains("datetime="));
    let name =
        |line: &str| line.trim_start_matches('<').split('>').next().unwrap().rsplit('/').next().unwrap().to_owned();
    mementos.map(name).collect()
}

/// The state of a version.
fn version(site: &Site, path: &str, name: &str, is_binary: bool) -> Option<State> {
    let within = within(path);
    let description = if is_binary { "fcr:metadata/" } else { "" };
    let graph = format!("{within}{description}fcr:versions/{name}");
    state(site, &graph, &format!("{within}fcr:versions/{name}"), is_binary)
}

/// What the paths of what belongs to a resource begin with.
fn within(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}/") }
}

fn state(site: &Site, graph: &str, bytes: &str, is_binary: bool) -> Option<State> {
    let (status, text) = site.get(graph, &["Accept: application/n-triples"]);
    if status != 200 {
        return None;
    }
    let is_kept = |line: &&str| {
        let is_of_server = OF_SERVER.iter().any(|of_server| line.contains(of_server));
        !(line.is_empty() || is_of_server || is_binary && line.contains(FILENAME))
    };
    // Penates also sends the members that a container gives to another resource.
    let of = format!("</{}", bytes.split("fcr:").next().unwrap_or_default().trim_end_matches('/'));
    let is_own = |line: &String| line.starts_with(&of) || line.starts_with("_:");
    let statements = text.lines().filter(is_kept).map(|line| plain(line, &site.root));
    let mut statements: Vec<_> = statements.filter(is_own).collect();
    statements.sort();
    if !is_binary {
        return Some(State { statements, bytes: None, media_type: None });
    }
    let (status, head) = site.get(bytes, &["X-Print: head"]);
    let (head, body) =
        head.replace("\r\n", "\n").split_once("\n\n").map(|(head, body)| (head.to_owned(), body.to_owned()))?;
    let field = |name: &str| {
        let lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next()
    };
    // Bytes that are elsewhere are known by their address.
    let bytes = match status {
        307 => field("location"),
        _ => Some(body),
    };
    Some(State { statements, bytes, media_type: field("content-type").filter(|_| status == 200) })
}

/// A line with addresses from the root on, and with one name for all blank nodes.
fn plain(line: &str, root: &str) -> String {
    let line = line.replace(&format!("<{root}"), "</").replace(&format!("<{}>", root.trim_end_matches('/')), "</>");
    let mut parts = line.split("_:");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| {
        let rest = part.trim_start_matches(|letter: char| letter.is_ascii_alphanumeric());
        line + "_:b" + rest
    })
}

//! The page of two versions: what they differ in.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use axum::response::Response;
use door_http::Place;
use door_http::body::with_share;
use door_http::page::wide;
use heads::RevisionId;
use http::Method;
use maud::{Markup, html};
use rdf::{Graph, NamedNode, NamedOrBlankNode, Term, Triple};
use repository::{Binary, Resource, ResourceError, Versions};

use super::alike::alike;
use super::changed_lines::changed_lines;
use super::preview::is_text;
use super::{about_part, described, local, members, terms};
use crate::address::{At, kept_iri};
use crate::errors::LdpError;
use crate::request::{LdpRequest, unsent};
use crate::stored::{expected_bytes, kept_description};
use crate::timegate::State;
use crate::version_name::VersionName;

/// Most bytes of a text that is compared line by line.
const TEXT_BYTES_MAX: u64 = 64 << 10;

impl LdpRequest {
    /// What two versions differ in.
    pub async fn compare(
        &self,
        versions: &Versions,
        names: [VersionName; 2],
        mut response: Response,
    ) -> Result<Response, LdpError> {
        let mut states = [self.state(versions, names[0]).await?, self.state(versions, names[1]).await?];
        states.sort_by_key(|state| state.resource.revision());
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let large_bytes: u64 = states.iter().map(|state| expected_bytes(&state.resource)).sum();
        let (share, _turn) = self.turn_to_read(large_bytes).await?;
        let [State { resource: older, name: older_name, .. }, State { resource: newer, name: newer_name, .. }] = states;
        let then = kept_description(self.library(), &older).await?;
        let now = kept_description(self.library(), &newer).await?;
        let (removed, added) = (only_in(&then, &now), only_in(&now, &then));
        let own = kept_iri(self.path());
        let statements = |heading: &str, section: &str, statements: Graph| {
            html! {
                @if !statements.is_empty() {
                    h2 { (heading) }
                    (described::statements(&self.site, &own, section, statements))
                }
            }
        };
        let has_same_statements = removed.is_empty() && added.is_empty();
        let has_same_graph = if has_same_statements {
            let compared = tokio::task::spawn_blocking(move || alike(&then, &now)).await;
            compared.map_err(|error| LdpError::Internal(error.to_string()))?
        } else {
            Some(false)
        };
        let is_same = has_same_graph == Some(true) && bytes_of(&older) == bytes_of(&newer);
        let content = html! {
            p.lead {
                "From " (self.version(older_name, older.revision()))
                " to " (self.version(newer_name, newer.revision()))
            }
            @if is_same { p.note { "The two versions have the same description and the same bytes." } }
            @if has_same_statements { (connections(has_same_graph)) }
            (bytes_changed(&older, &newer))
            (self.text_changed(&older, &newer).await?)
            (statements("Removed statements", "removed", removed))
            (statements("Added statements", "added", added))
        };
        let mut page = about_part(&self.site, &self.target, format!("Changes of /{}", self.path()));
        page.way.push(Place::new("Versions", local(&self.iri_at(At::All))));
        *response.body_mut() = with_share(page.with(&content), share)?.into();
        Ok(response)
    }

    /// What the bytes differ in, line by line, if both are short texts.
    async fn text_changed(&self, older: &Resource, newer: &Resource) -> Result<Markup, LdpError> {
        let (Some(of_older), Some(of_newer)) = (short_text(older), short_text(newer)) else { return Ok(html! {}) };
        if of_older.sha256 == of_newer.sha256 {
            return Ok(html! {});
        }
        let texts = self.texts([(older, of_older), (newer, of_newer)]).await;
        let [older, newer] = match texts {
            Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => {
                return Ok(html! { p.note { "The bytes of a version are damaged." } });
            }
            texts => texts?,
        };
        let compared = tokio::task::spawn_blocking(move || changed_lines(&older, &newer)).await;
        compared.map_err(|error| LdpError::Internal(error.to_string()))
    }

    async fn texts(&self, [older, newer]: [(&Resource, &Binary); 2]) -> Result<[String; 2], LdpError> {
        Ok([self.whole_text(older.0, older.1).await?, self.whole_text(newer.0, newer.1).await?])
    }

    /// A link to a version.
    pub(super) fn version(&self, name: VersionName, revision: RevisionId) -> Markup {
        html! {
            a href=(local(&self.iri_at(At::Version(name)))) { (terms::time(revision.time())) }
            " " code { (name) }
        }
    }
}

/// What differs if no statement does, as it is shown: without the labels of blank nodes.
fn connections(has_same_graph: Option<bool>) -> Markup {
    let differ = match has_same_graph {
        Some(true) => return html! {},
        Some(false) => "are connected in another way",
        None => "may be connected in another way: too many of them look alike to tell",
    };
    html! { p.note { "No statement was added or removed. Nodes without a name " (differ) "." } }
}

/// The digest, the size and the type of a resource's bytes.
fn bytes_of(resource: &Resource) -> Option<([u8; 32], u64, &str)> {
    resource.body().binary().map(|binary| (binary.sha256, binary.len_bytes, binary.media_type.as_str()))
}

/// The bytes of a resource, if they are a text of at most [`TEXT_BYTES_MAX`] that is stored here.
fn short_text(resource: &Resource) -> Option<&Binary> {
    let binary = resource.body().binary()?;
    let is_short = binary.elsewhere().is_none() && binary.len_bytes <= TEXT_BYTES_MAX;
    (is_short && is_text(&binary.media_type)).then_some(binary)
}

fn bytes_changed(older: &Resource, newer: &Resource) -> Markup {
    if bytes_of(older) == bytes_of(newer) {
        return html! {};
    }
    let column = |resource: &Resource| {
        let digest = bytes_of(resource).map(|(sha256, ..)| hex::encode(sha256));
        let size = members::len_bytes(resource).map(terms::size).unwrap_or_default();
        // A digest is one long word, which breaks as code.
        let digest = html! { @if let Some(digest) = digest { code { (digest) } } };
        [html! { (members::kind(resource)) }, html! { (size) }, digest]
    };
    let rows = ["Type", "Size", "SHA-256"].into_iter().zip(column(older)).zip(column(newer));
    let table = html! {
        table {
            thead { tr { td {} th scope="col" { "Older" } th scope="col" { "Newer" } } }
            tbody {
                @for ((name, older), newer) in rows {
                    tr { th scope="row" { (name) } td { (older) } td { (newer) } }
                }
            }
        }
    };
    html! {
        h2 { "Bytes" }
        (wide(Some("Bytes"), &table))
    }
}

/// The statements of one graph that the other lacks. Blank nodes have other labels in each version,
/// so statements are compared without them, and each matches one.
fn only_in(one: &Graph, other: &Graph) -> Graph {
    // The hash of a statement takes less memory than its text, and its seed is secret.
    let hashes = RandomState::new();
    let mut counts: HashMap<u64, u64> = HashMap::new();
    for triple in other {
        *counts.entry(hashes.hash_one(unlabelled(triple))).or_default() += 1;
    }
    let is_missing = |triple: &&Triple| match counts.get_mut(&hashes.hash_one(unlabelled(triple))) {
        Some(count) if *count > 0 => {
            *count -= 1;
            false
        }
        _ => true,
    };
    one.iter().filter(is_missing).cloned().collect()
}

/// A statement with one label for all blank nodes.
fn unlabelled(triple: &Triple) -> Triple {
    let blank = NamedNode::new_unchecked("_:");
    let mut triple = triple.clone();
    if let NamedOrBlankNode::BlankNode(_) = triple.subject {
        triple.subject = blank.clone().into();
    }
    if let Term::BlankNode(_) = triple.object {
        triple.object = blank.into();
    }
    triple
}

#[cfg(test)]
mod tests {
    use rdf::{BlankNode, Literal};

    use super::*;

    fn statement(object: impl Into<Term>) -> Triple {
        let node = NamedNode::new_unchecked;
        Triple::new(node("http://a/s"), node("http://a/p"), object)
    }

    #[test]
    fn a_difference_ignores_labels_of_blank_nodes_and_counts_repetitions() {
        let blank = |label| statement(BlankNode::new_unchecked(label));
        let text = |text: &str| statement(Literal::from(text));
        let older: Graph = [text("same"), text("old"), blank("a"), blank("b")].into_iter().collect();
        let newer: Graph = [blank("x"), text("same"), text("new")].into_iter().collect();
        let only = |one, other| only_in(one, other).into_iter().collect::<Vec<_>>();
        assert_eq!(only(&older, &newer), [text("old"), blank("b")]);
        assert_eq!(only(&newer, &older), [text("new")]);
    }
}

//! PATCH: a SPARQL update over a resource's own statements.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use budget::{Memory, Overloaded, Share};
use door_http::Held;
use heads::actor;
use parking_lot::Mutex;
use rdf::update::{Room, UpdateError, Updated};
use rdf::vocab::ldp;
use rdf::{Limits, Triple};
use repository::Kind;
use repository::ResourceError;

use crate::address::Facet;
use crate::body::{GraphBody, bytes_of, bytes_of_removals, content_type, refuse_codings, whole};
use crate::errors::LdpError;
use crate::given_up::GivenUp;
use crate::incoming::Incoming;
use crate::managed;
use crate::request::{LdpRequest, SPARQL_UPDATE, TRIES_MAX, changes_all_the_time};
use crate::settings::LdpSettings;
use crate::stored::{kept_description, map, map_removal};

/// Copies of the update in memory at the same time: for one try, and for those after it.
const TEXTS_AT_ONCE: u64 = 2;

/// Copies of a graph in memory at the same time. The one before the update is copied and changed,
/// and read again for its references. The one after it is also there as it is stored.
const GRAPHS_AT_ONCE: u64 = 2;

impl LdpRequest {
    /// Changes statements.
    pub async fn patch(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let resource = self.resource().await?;
        if self.target.facet == Facet::Itself && matches!(resource.kind(), Kind::Binary(_)) {
            return Err(self.not_allowed(self.allow(&resource)));
        }
        let (asked, _given_up) = (self.clone(), GivenUp(self.stop.clone()));
        // The write itself is completed. Computing what to write stops when the client leaves.
        let change = actor::spawn(async move { asked.update(body).await });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn update(self: Arc<Self>, body: Body) -> Result<Response, LdpError> {
        refuse_codings(&self.headers)?;
        let said = content_type(&self.headers).unwrap_or_default();
        if !said.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(SPARQL_UPDATE) {
            return Err(LdpError::UnsupportedMediaType { found: said.to_owned(), supported: SPARQL_UPDATE.to_owned() });
        }
        let Held { bytes, share } = whole(body, &self, self.settings().rdf_bytes_max).await?;
        let share = Arc::new(Mutex::new(share));
        let text = String::from_utf8(bytes.into()).map_err(|_| LdpError::UpdateNotUtf8)?;
        for _ in 0..TRIES_MAX {
            // While it waits for its turn it holds only its text. It reads the graph afterwards, so
            // that others have seldom changed that when it writes.
            share.lock().resize(text.len() as u64)?;
            let update_turn = self.stop.turn(&self.door.updates, &self.party).await?;
            let resource = self.resource().await?;
            self.may_change(&resource)?;
            let mut graph = kept_description(self.library(), &resource).await?;
            let said = managed::statements(&resource);
            graph.extend(said.iter().cloned());
            let shown = map(graph, |iri| self.site.shown(iri));
            let (texts_bytes, before_bytes) = (TEXTS_AT_ONCE * text.len() as u64, bytes_of(&shown));
            share.lock().resize(texts_bytes + GRAPHS_AT_ONCE * before_bytes)?;
            let room = room(&self.library().memory, &share, before_bytes);
            let (text, base) = (text.clone(), self.site.base(self.path())?);
            let &LdpSettings { triples_max, update_bytes_max, held, .. } = self.settings();
            let limits = Limits { triples: triples_max, held_bytes: update_bytes_max, held, ..Limits::default() };
            let cancellation = self.stop.computing();
            let turns = (self.stop.turn(&self.door.evaluations, &self.party).await?, update_turn);
            let job = move || {
                let updated = rdf::update::apply_within(&shown, &text, &base, &limits, &cancellation, &room);
                // The turns go on until what the update built has a share.
                (updated, turns)
            };
            let done = tokio::task::spawn_blocking(job).await;
            let (updated, turns) = done.map_err(|error| LdpError::Internal(error.to_string()))?;
            let Updated { graph, removals } = updated?;
            let graphs_bytes = GRAPHS_AT_ONCE * (before_bytes + bytes_of(&graph));
            share.lock().resize(texts_bytes + graphs_bytes + bytes_of_removals(&removals))?;
            drop(turns);
            let updated = map(graph, |iri| self.site.kept(iri));
            let removals: Vec<_> =
                removals.into_iter().map(|removal| map_removal(removal, |iri| self.site.kept(iri))).collect();
            let is_contained = |triple: &&Triple| triple.predicate.as_ref() == ldp::CONTAINS;
            let missing: Vec<_> = said
                .iter()
                .filter(is_contained)
                .filter(|triple| !updated.contains(triple))
                .map(ToString::to_string)
                .collect();
            if !missing.is_empty() {
                return Err(LdpError::Constraint {
                    why: "the server manages these statements, and they cannot be deleted",
                    statements: missing,
                });
            }
            let update = self.described(&resource, updated, &removals).await?;
            match self.library().repository.update(&resource, &update).await {
                Ok(written) => {
                    drop(share);
                    return Ok(self.replaced(&written, Incoming::Graph(GraphBody::empty(), None)).await);
                }
                Err(ResourceError::Moved(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(changes_all_the_time(self.path()))
    }
}

/// The memory that an update takes while it is computed, as a part of its share, which counts the copy
/// of its graph already. The share grows at once or not at all: an update that waited would keep from
/// others what it holds, and its turn.
fn room(memory: &Memory, share: &Arc<Mutex<Share>>, copy_bytes: u64) -> Room {
    let (share, least_bytes) = (share.clone(), share.lock().bytes());
    let besides_bytes = least_bytes.saturating_sub(copy_bytes);
    let max_bytes = memory.request_bytes_max().saturating_sub(besides_bytes);
    Room::new(usize::try_from(max_bytes).unwrap_or(usize::MAX), move |bytes| {
        let all_bytes = besides_bytes.saturating_add(bytes as u64).max(least_bytes);
        share.lock().resize(all_bytes).map_err(|Overloaded(why)| UpdateError::NoRoom(why))
    })
}

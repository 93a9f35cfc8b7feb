//! PATCH: a SPARQL update over a resource's own statements.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use door_http::Held;
use heads::actor;
use rdf::update::{Cancellation, Updated};
use rdf::vocab::ldp;
use rdf::{Limits, Triple};
use repository::Kind;
use repository::ResourceError;

use crate::address::Facet;
use crate::body::{GraphBody, bytes_of, content_type, refuse_codings, whole};
use crate::errors::LdpError;
use crate::incoming::Incoming;
use crate::managed;
use crate::request::{LdpRequest, SPARQL_UPDATE, TRIES_MAX, changes_all_the_time};
use crate::stored::{kept_description, map, map_removal};

/// Cancels an update when its request is dropped.
struct GivenUp(Cancellation);

impl Drop for GivenUp {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Copies of the update in memory at the same time: for one try, and for those after it.
const TEXTS_AT_ONCE: u64 = 2;

/// Graphs in memory at the same time: before and after the update.
const GRAPHS_AT_ONCE: u64 = 2;

impl LdpRequest {
    /// Changes statements.
    pub async fn patch(self: &Arc<Self>, body: Body) -> Result<Response, LdpError> {
        let resource = self.resource().await?;
        if self.target.facet == Facet::Itself && matches!(resource.kind(), Kind::Binary(_)) {
            return Err(self.not_allowed(self.allow(&resource)));
        }
        let (asked, given_up) = (self.clone(), GivenUp(Cancellation::default()));
        let cancellation = given_up.0.clone();
        // The write itself is completed. Computing what to write stops when the client leaves.
        let change = actor::spawn(async move { asked.update(body, &cancellation).await });
        change.await.map_err(|error| LdpError::Internal(error.to_string()))?
    }

    async fn update(self: Arc<Self>, body: Body, cancellation: &Cancellation) -> Result<Response, LdpError> {
        refuse_codings(&self.headers)?;
        let said = content_type(&self.headers).unwrap_or_default();
        if !said.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(SPARQL_UPDATE) {
            return Err(LdpError::UnsupportedMediaType { found: said.to_owned(), supported: SPARQL_UPDATE.to_owned() });
        }
        let Held { bytes, mut share } = whole(body, &self, self.settings().rdf_bytes_max).await?;
        let text = String::from_utf8(bytes.into()).map_err(|_| LdpError::UpdateNotUtf8)?;
        for _ in 0..TRIES_MAX {
            let resource = self.resource().await?;
            self.may_change(&resource)?;
            let mut graph = kept_description(self.library(), &resource).await?;
            let said = managed::statements(&resource);
            graph.extend(said.iter().cloned());
            let shown = map(graph, |iri| self.site.shown(iri));
            share.resize(TEXTS_AT_ONCE * text.len() as u64 + GRAPHS_AT_ONCE * bytes_of(&shown))?;
            let (text, base) = (text.clone(), self.site.base(self.path())?);
            let limits = Limits { triples: self.settings().triples_max, ..Limits::default() };
            let cancellation = cancellation.clone();
            let updated =
                tokio::task::spawn_blocking(move || rdf::update::apply(&shown, &text, &base, &limits, &cancellation));
            let Updated { graph, removals } =
                updated.await.map_err(|error| LdpError::Internal(error.to_string()))??;
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
                    return Ok(self.replaced(&written, &Incoming::Graph(GraphBody::empty(), None)).await);
                }
                Err(ResourceError::Moved(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(changes_all_the_time(self.path()))
    }
}

//! What was deleted from a container and has a tombstone: `GET` of its
//! `fcr:versions?members=deleted` lists it as lines of JSON, as far as its versions are kept. People
//! get a page (`pages/deleted.rs`). The container may be deleted itself.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use budget::Party;
use bytes::Bytes;
use door_http::accept::{self, Offer};
use futures::stream;
use heads::{ResourcePath, RevisionId};
use http::{HeaderValue, Method, StatusCode, header};
use library::Library;
use repository::{Child, PastMembers, ResourceError};
use serde::Serialize;

use crate::LdpDoor;
use crate::address::Facet;
use crate::errors::LdpError;
use crate::format::Format;
use crate::managed;
use crate::pages::deleted::{Asked, PARAMETERS};
use crate::query::Parameters;
use crate::request::{LdpRequest, empty, unsent};
use crate::statements::is_container;

const JSON_LINES: &str = "application/x-ndjson";

/// The parameter that asks for the list.
pub const MEMBERS: &str = "members";

/// The query of the list.
pub const QUERY: &str = "members=deleted";

/// Members that are read together.
const PAGE_MEMBERS: usize = 128;

/// A line.
#[derive(Serialize)]
struct Line {
    name: String,
    /// When it was deleted.
    deleted: String,
}

impl LdpRequest {
    /// Whether a request for the list of versions is one for deleted members.
    pub fn asks_for_deleted_members(&self) -> Result<bool, LdpError> {
        let mut fields = form_urlencoded::parse(self.query.as_deref().unwrap_or_default().as_bytes());
        if self.target.facet != Facet::Itself || !fields.any(|(name, _)| name == MEMBERS) {
            return Ok(false);
        }
        let asked = Parameters::only(self.query.as_deref(), &PARAMETERS)?;
        let deleted = |value: &str| if value == "deleted" { Ok(true) } else { Err("it is `deleted`".to_owned()) };
        Ok(asked.read_as(MEMBERS, deleted)?.unwrap_or(false))
    }

    /// The names and times of what was deleted. A name may be there several times.
    pub async fn get_deleted_members(&self) -> Result<Response, LdpError> {
        if !self.settings().deleted_versions {
            return Err(LdpError::NoVersions);
        }
        let offers = [Offer::new(JSON_LINES, false), Offer::new("text/html", true)];
        let none = || LdpError::NotAcceptable(format!("{JSON_LINES}, text/html"));
        let page = match *accept::media_type(&self.headers, &offers).ok_or_else(none)? {
            true => Some(Asked::of(self.query.as_deref())?),
            // The lines are all there are.
            false => Parameters::only(self.query.as_deref(), &[MEMBERS]).map(|_| None)?,
        };
        let versions = self.versions().await?;
        let version = match versions.is_live() {
            // Where versions are explicit, it need not be one that is listed.
            true => versions.at(versions.newest()).await?,
            false => versions.newest_change_below(RevisionId::LAST).await?,
        };
        let version = version.ok_or_else(|| ResourceError::Absent(self.path().clone()))?;
        let mut response = empty(StatusCode::OK);
        let headers = response.headers_mut();
        match &page {
            Some(_) => Format::Html.insert(headers),
            None => _ = headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON_LINES)),
        }
        headers.insert(header::VARY, HeaderValue::from_static("accept"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
        if self.method == Method::HEAD {
            return Ok(unsent(response));
        }
        let members = match is_container(&version) {
            true => Some(self.library().repository.members_ever(&versions, &version).await?),
            false => None,
        };
        if let Some(page) = page {
            return self.page_of_deleted(&page, members, versions.is_live(), response).await;
        }
        if let Some(members) = members {
            let (door, party) = (self.door.clone(), self.party.clone());
            let listing = Listing { door, party, path: self.path().clone(), members };
            *response.body_mut() = Body::from_stream(stream::try_unfold(listing, Listing::next));
        }
        Ok(response)
    }
}

/// The paths of members of a container, each with the revision that deleted what was there; `None`:
/// it has no tombstone, or nothing of it is kept.
pub async fn deletions(
    library: &Library,
    container: &ResourcePath,
    members: &[Child],
) -> Result<Vec<(ResourcePath, Option<RevisionId>)>, LdpError> {
    let paths = members.iter().map(|member| container.child(&member.name));
    let paths = paths.collect::<Result<Vec<_>, _>>().map_err(ResourceError::from)?;
    let deleted = library.repository.deleted_among(&paths).await?;
    Ok(paths.into_iter().zip(deleted).collect())
}

/// A list that is being sent.
struct Listing {
    door: Arc<LdpDoor>,
    party: Party,
    path: ResourcePath,
    members: PastMembers,
}

impl Listing {
    /// The next lines, and the rest.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, LdpError> {
        let mut lines = Vec::new();
        // Most members of a page may have no line.
        while lines.is_empty() {
            // Not while the client takes its time.
            let _turn = self.door.readings.turn(&self.party).await?;
            let Some(page) = self.members.more(PAGE_MEMBERS).await? else { return Ok(None) };
            let deleted = deletions(&self.door.library, &self.path, &page).await?;
            for (member, (_, deleted)) in page.into_iter().zip(deleted) {
                let Some(deleted) = deleted else { continue };
                let line = Line { name: member.name, deleted: managed::time_text(deleted.time()) };
                serde_json::to_writer(&mut lines, &line).map_err(|error| LdpError::Internal(error.to_string()))?;
                lines.push(b'\n');
            }
        }
        Ok(Some((lines.into(), self)))
    }
}

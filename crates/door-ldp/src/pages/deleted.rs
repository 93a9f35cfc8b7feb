//! The page of what was deleted from a container: of each its tombstone, its versions, and the form
//! that brings it back. A page reads the list from its beginning, and holds only what it shows.

use axum::response::Response;
use door_http::body::with_share;
use heads::{ResourcePath, RevisionId};
use maud::{Markup, html};
use repository::PastMembers;

use super::members::{MEMBERS, MEMBERS_MAX};
use super::{about_part, local, name_of, terms};
use crate::address::{At, FORMS, Facet, Target};
use crate::deleted::{self, QUERY, deletions};
use crate::errors::LdpError;
use crate::query::Parameters;
use crate::request::LdpRequest;

/// The parameter with the most entries of a page.
const LIMIT: &str = "limit";

/// The parameter that leaves out so many members at the beginning of the list, with and without a
/// tombstone.
const AFTER: &str = "after";

/// The parameters of the page.
pub const PARAMETERS: [&str; 3] = [deleted::MEMBERS, LIMIT, AFTER];

/// Most members that a page leaves out, because it reads their names.
const AFTER_MAX: usize = 100_000;

/// Members that are left out together.
const LEFT_OUT_AT_ONCE: usize = 1_000;

/// Members whose tombstones are looked up together.
const LOOKED_UP_AT_ONCE: usize = 128;

/// Most members whose tombstones a page looks up, about. Many may have none.
const LOOKED_UP_MAX: usize = 2_000;

/// What a query asks for.
pub struct Asked {
    /// Members that are left out at the beginning of the list.
    after: usize,
    /// Most entries of the page.
    rows_max: usize,
}

/// A page of the list.
struct Found {
    /// What was deleted, each path once, with the revision that deleted it.
    rows: Vec<(ResourcePath, RevisionId)>,
    /// How many members the next page leaves out; `None` on the last page.
    next: Option<usize>,
}

impl Asked {
    /// Reads a query. Its fields are those of the list.
    pub fn of(query: Option<&str>) -> Result<Self, LdpError> {
        let asked = Parameters::only(query, &PARAMETERS)?;
        let after = asked.number(AFTER, AFTER_MAX)?.unwrap_or(0);
        Ok(Self { after, rows_max: asked.number(LIMIT, MEMBERS_MAX)?.unwrap_or(MEMBERS) })
    }
}

impl LdpRequest {
    /// The page. `members` are those that the container ever had; `None`: it is no container.
    /// `is_live` says whether it is there.
    pub async fn page_of_deleted(
        &self,
        asked: &Asked,
        members: Option<PastMembers>,
        is_live: bool,
        mut response: Response,
    ) -> Result<Response, LdpError> {
        let (share, _turn) = self.turn_to_read().await?;
        let is_deleted_container = members.is_some() && !is_live;
        let found = match members {
            Some(members) => self.found_among(members, asked).await?,
            None => Found { rows: Vec::new(), next: None },
        };
        let content = html! {
            @if is_deleted_container { (self.deleted_itself()) }
            (self.list_of_deleted(asked, &found, is_live))
        };
        let page = about_part(&self.site, &self.target, format!("Deleted from /{}", self.path())).with(&content);
        *response.body_mut() = with_share(page, share)?.into();
        Ok(response)
    }

    /// Reads what a page shows.
    async fn found_among(&self, mut members: PastMembers, asked: &Asked) -> Result<Found, LdpError> {
        let mut rows: Vec<(ResourcePath, RevisionId)> = Vec::new();
        let mut place = 0;
        while place < asked.after + LOOKED_UP_MAX {
            let left_out = asked.after.saturating_sub(place);
            let at_once = if left_out > 0 { left_out.min(LEFT_OUT_AT_ONCE) } else { LOOKED_UP_AT_ONCE };
            let Some(page) = members.more(at_once).await? else { return Ok(Found { rows, next: None }) };
            let first = place + left_out.min(page.len());
            place += page.len();
            let rest = page.get(left_out..).unwrap_or_default();
            if rest.is_empty() {
                continue;
            }
            for (at, (path, deleted)) in (first..).zip(deletions(self.library(), self.path(), rest).await?) {
                let Some(deleted) = deleted else { continue };
                // A name that was used several times is there several times.
                if rows.iter().any(|(known, _)| *known == path) {
                    continue;
                }
                if rows.len() == asked.rows_max {
                    return Ok(Found { rows, next: Some(at) });
                }
                rows.push((path, deleted));
            }
        }
        Ok(Found { rows, next: Some(place) })
    }

    /// What a page of a container says that is deleted itself.
    fn deleted_itself(&self) -> Markup {
        html! {
            p.note {
                "The container is deleted itself. What was in it then comes back with it."
                @if !self.reads_only {
                    " " a href=(local(&self.site.iri_of(self.path(), FORMS))) { "Bring back the container" }
                }
            }
        }
    }

    fn list_of_deleted(&self, asked: &Asked, Found { rows, next }: &Found, is_live: bool) -> Markup {
        let next_page = next.filter(|next| *next <= AFTER_MAX);
        html! {
            @if !rows.is_empty() {
                div.wide {
                    table {
                        thead {
                            tr {
                                th scope="col" { "Name" }
                                th scope="col" { "Deleted" }
                                th scope="col" { "What is kept" }
                            }
                        }
                        tbody { @for (path, deleted) in rows { (self.deleted_row(path, *deleted, is_live)) } }
                    }
                }
            } @else {
                p {
                    @if next.is_some() { "None on this page." }
                    @else if asked.after > 0 { "There are no more." }
                    @else { "Nothing was deleted from it that is kept." }
                }
            }
            @if next.is_some() && next_page.is_none() {
                p.note { "There may be more. Ask for " code { "application/x-ndjson" } " to get all." }
            }
            @if asked.after > 0 || next_page.is_some() {
                nav.row.pager aria-label="Pages of what was deleted" {
                    @if asked.after == 0 { span {} }
                    @else { a.button href=(self.page_of_list(asked, 0)) { "First page" } }
                    @if let Some(next) = next_page {
                        a.button rel="next" href=(self.page_of_list(asked, next)) { "Next page" }
                    }
                }
            }
        }
    }

    /// The address of a page that leaves out so many members.
    fn page_of_list(&self, asked: &Asked, after: usize) -> String {
        let list = self.iri_at(At::All);
        let after = if after > 0 { format!("&{AFTER}={after}") } else { String::new() };
        format!("{}?{QUERY}&{LIMIT}={}{after}", local(&list), asked.rows_max)
    }

    fn deleted_row(&self, path: &ResourcePath, deleted: RevisionId, is_live: bool) -> Markup {
        let name = name_of(path);
        let versions = Target { path: path.clone(), facet: Facet::Itself, at: At::All };
        let versions = self.site.iri_of_target(&versions);
        html! {
            tr {
                th scope="row" { a href=(local(&self.site.iri(path))) { (name) } }
                td { (terms::time(deleted.time())) }
                td {
                    span.row {
                        // Read out of their place, links need to say what they are about.
                        a href=(local(&versions)) aria-label={ "Versions: " (name) } { "Versions" }
                        // What is in a deleted container has no tombstone of its own.
                        @if is_live && !self.reads_only {
                            a href=(local(&self.site.iri_of(path, FORMS))) aria-label={ "Bring it back: " (name) } {
                                "Bring it back"
                            }
                        }
                    }
                }
            }
        }
    }
}

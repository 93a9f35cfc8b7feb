//! The page of what was deleted from a container: of each its tombstone, its versions, and the form
//! that brings it back. The list leads forward only. So each page reads it from its beginning, and
//! holds what it shows; the page before a place also holds the names among which it looks.

use axum::response::Response;
use door_http::body::with_share;
use heads::{ResourcePath, RevisionId};
use maud::{Markup, html};
use repository::{Child, PastMembers};

use super::members::{MEMBERS, MEMBERS_MAX, pager_to};
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

/// The parameter that asks for the page that ends where one with this `after` begins.
const BEFORE: &str = "before";

/// The parameters of the page.
pub const PARAMETERS: [&str; 4] = [deleted::MEMBERS, LIMIT, AFTER, BEFORE];

/// Most members before the place that a query names, because a page reads their names.
const PLACE_MAX: usize = 100_000;

/// Members that are left out together.
const LEFT_OUT_AT_ONCE: usize = 1_000;

/// Members whose tombstones are looked up together.
const LOOKED_UP_AT_ONCE: usize = 128;

/// Most members whose tombstones a page looks up, about. Many may have none.
const LOOKED_UP_MAX: usize = 2_000;

/// What a query asks for.
pub struct Asked {
    /// Where the page is in the list.
    place: Place,
    /// Most entries of the page.
    rows_max: usize,
}

/// Where a page is: by how many members of the list, with and without a tombstone, are before it.
#[derive(Clone, Copy)]
enum Place {
    /// It begins after so many.
    After(usize),
    /// It ends after so many.
    Before(usize),
}

/// A page of the list.
struct Found {
    /// What was deleted, each path once, with the revision that deleted it.
    rows: Vec<(ResourcePath, RevisionId)>,
    /// How many members are before the page; 0 on the first page.
    begins: usize,
    /// How many members the next page leaves out; `None` on the last page.
    next: Option<usize>,
}

impl Asked {
    /// Reads a query. Its fields are those of the list.
    pub fn of(query: Option<&str>) -> Result<Self, LdpError> {
        let asked = Parameters::only(query, &PARAMETERS)?;
        let place = match (asked.number(AFTER, PLACE_MAX)?, asked.number(BEFORE, PLACE_MAX)?) {
            (Some(_), Some(_)) => return Err(LdpError::parameter(BEFORE, "`after` is given too")),
            (after, None) => Place::After(after.unwrap_or(0)),
            (None, Some(before)) => Place::Before(before),
        };
        Ok(Self { place, rows_max: asked.number(LIMIT, MEMBERS_MAX)?.unwrap_or(MEMBERS) })
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
        let (share, _turn) = self.turn_to_read(0).await?;
        let is_deleted_container = members.is_some() && !is_live;
        let found = match (members, asked.place) {
            (Some(members), Place::After(after)) => self.found_after(members, after, asked.rows_max).await?,
            (Some(members), Place::Before(before)) => self.found_before(members, before, asked.rows_max).await?,
            (None, _) => Found { rows: Vec::new(), begins: 0, next: None },
        };
        let content = html! {
            @if is_deleted_container { (self.deleted_itself()) }
            (self.list_of_deleted(asked, &found, is_live))
        };
        let page = about_part(&self.site, &self.target, format!("Deleted from /{}", self.path())).with(&content);
        *response.body_mut() = with_share(page, share)?.into();
        Ok(response)
    }

    /// Reads what a page shows that begins after so many members.
    async fn found_after(&self, mut members: PastMembers, begins: usize, rows_max: usize) -> Result<Found, LdpError> {
        let mut rows: Vec<(ResourcePath, RevisionId)> = Vec::new();
        let mut place = 0;
        while place < begins + LOOKED_UP_MAX {
            let left_out = begins.saturating_sub(place);
            let at_once = if left_out > 0 { left_out.min(LEFT_OUT_AT_ONCE) } else { LOOKED_UP_AT_ONCE };
            let Some(page) = members.more(at_once).await? else { return Ok(Found { rows, begins, next: None }) };
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
                if rows.len() == rows_max {
                    return Ok(Found { rows, begins, next: Some(at) });
                }
                rows.push((path, deleted));
            }
        }
        Ok(Found { rows, begins, next: Some(place) })
    }

    /// Reads what a page shows that ends after so many members. It looks up the last of them, from
    /// the end on.
    async fn found_before(&self, mut members: PastMembers, ends: usize, rows_max: usize) -> Result<Found, LdpError> {
        let mut last: Vec<Child> = Vec::new();
        let (mut begins, mut next) = (0, Some(ends));
        while begins < ends {
            let wanted = ends - begins;
            let Some(mut page) = members.more(wanted.min(LEFT_OUT_AT_ONCE)).await? else {
                next = None;
                break;
            };
            // There may be a few more than wanted.
            page.truncate(wanted);
            begins += page.len();
            last.append(&mut page);
            last.drain(..last.len().saturating_sub(LOOKED_UP_MAX));
        }
        let mut rows: Vec<(ResourcePath, RevisionId)> = Vec::new();
        'looked_up: for some in last.rchunks(LOOKED_UP_AT_ONCE) {
            for (path, deleted) in deletions(self.library(), self.path(), some).await?.into_iter().rev() {
                if let Some(deleted) = deleted {
                    match rows.iter().position(|(known, _)| *known == path) {
                        // The page lists it where it is first.
                        Some(later) => _ = rows.remove(later),
                        None if rows.len() == rows_max => break 'looked_up,
                        None => {}
                    }
                    rows.push((path, deleted));
                }
                begins -= 1;
            }
        }
        rows.reverse();
        Ok(Found { rows, begins, next })
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

    fn list_of_deleted(&self, asked: &Asked, Found { rows, begins, next }: &Found, is_live: bool) -> Markup {
        let next_page = next.filter(|next| *next <= PLACE_MAX);
        let page = |place: Place| self.page_of_list(asked, place);
        let back = (*begins > 0).then(|| [page(Place::Before(*begins)), page(Place::After(0))]);
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
                    @else if back.is_some() { "There are no more." }
                    @else { "Nothing was deleted from it that is kept." }
                }
            }
            @if next.is_some() && next_page.is_none() {
                p.note { "There may be more. Ask for " code { "application/x-ndjson" } " to get all." }
            }
            (pager_to("Pages of what was deleted", back, next_page.map(|next| page(Place::After(next)))))
        }
    }

    /// The address of a page at a place.
    fn page_of_list(&self, asked: &Asked, place: Place) -> String {
        let list = self.iri_at(At::All);
        let place = match place {
            Place::After(0) => String::new(),
            Place::After(after) => format!("&{AFTER}={after}"),
            Place::Before(before) => format!("&{BEFORE}={before}"),
        };
        format!("{}?{QUERY}&{LIMIT}={}{place}", local(&list), asked.rows_max)
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

//! The page of all volumes: a table with titles, a page at a time. Those that people choose come as
//! one ZIP, from the data door.

use ::volumes::{Listing, Volume};
use axum::response::Response;
use futures::{StreamExt, TryStreamExt, stream};
use hathi::VolumeId;
use heads::ObjectsError;
use library::Library;
use maud::{Markup, html};

use super::members::{MEMBERS, MEMBERS_MAX, READ_AT_ONCE, pager};
use super::{about_volumes, local, terms};
use crate::address::{Site, kept_volumes};
use crate::errors::LdpError;
use crate::paging::{Page, Place};

/// The layouts of a ZIP, in words.
const LAYOUTS: [(&str, &str); 3] =
    [("pages", "a file a page"), ("volumes", "a file a volume"), ("wordseq", "one text file")];

/// A volume, or why nothing is known of it.
enum Row {
    Readable(Box<Volume>),
    /// Its head is damaged.
    Damaged(VolumeId),
}

/// The page of some volumes. Each of them is read.
pub async fn page_of_volumes(
    library: &Library,
    site: &Site,
    page: Option<Page>,
    mut response: Response,
) -> Result<Response, LdpError> {
    let volumes_max = page.as_ref().map_or(MEMBERS, |page| page.members_max.min(MEMBERS_MAX));
    let place = page.as_ref().map_or(&Place::First, |page| &page.place);
    let Listing { volumes, begins, next, .. } = place.volumes(library, volumes_max).await?;
    let rows = stream::iter(volumes).map(|id| row(library, id)).buffered(READ_AT_ONCE);
    let rows: Vec<_> = rows.try_filter_map(async |row| Ok(row)).try_collect().await?;
    let iri = site.shown(&kept_volumes()).unwrap_or_default();
    if let Some(page) = &page {
        page.describe(&iri, begins.as_ref(), next.as_ref(), response.headers_mut());
    }
    let server = format!("{}/", site.server());
    let archive = format!("{}volumes", local(&server));
    let find = format!("{archive}/?format=html");
    let content = html! {
        p.lead { a href=(find) { "Find volumes" } " by title, author, year and language." }
        @if rows.is_empty() {
            p { @if begins.is_none() && next.is_none() { "There are no volumes." } @else { "There are none on this page." } }
        } @else {
            form method="post" action=(archive) {
                (table(site, &rows, &find))
                (download())
            }
        }
        (pager("Pages of the volumes", local(&iri), volumes_max, begins.as_ref(), next.as_ref()))
    };
    *response.body_mut() = about_volumes(site, None).with(&content).into();
    Ok(response)
}

/// Reads a volume; `None` if it is gone.
async fn row(library: &Library, id: VolumeId) -> Result<Option<Row>, LdpError> {
    match library.volumes.volume(&id).await {
        Ok(volume) => Ok(Some(Row::Readable(Box::new(volume)))),
        Err(ObjectsError::Absent(_) | ObjectsError::Gone(_)) => Ok(None),
        Err(error) if error.is_damage() => Ok(Some(Row::Damaged(id))),
        Err(error) => Err(error.into()),
    }
}

/// How the chosen volumes come.
fn download() -> Markup {
    html! {
        p.row {
            label {
                "Chosen volumes as "
                select name="layout" { @for (name, words) in LAYOUTS { option value=(name) { (words) } } }
            }
            button.primary { "Download as one ZIP" }
        }
    }
}

/// The volumes. `find` is the address of the list that searches and sorts all of them.
fn table(site: &Site, rows: &[Row], find: &str) -> Markup {
    let sorted = |by: &str| format!("{find}&sort={by}");
    html! {
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { "Choose" }
                        th scope="col" { a href=(sorted("title")) { "Title" } }
                        th scope="col" { a href=(sorted("year")) { "Date" } }
                        th scope="col" { "Language" }
                        th.number scope="col" { "Pages" }
                        th.number scope="col" { "Size" }
                        th scope="col" { "Changed" }
                    }
                }
                tbody { @for row in rows { (shown(site, row)) } }
            }
        }
    }
}

fn shown(site: &Site, row: &Row) -> Markup {
    match row {
        Row::Damaged(id) => html! {
            tr {
                td {}
                th scope="row" { a href=(local(&site.volume_iri(id))) { (id.as_str()) } }
                td { "damaged" } td {} td.number {} td.number {} td {}
            }
        },
        Row::Readable(volume) => {
            let Volume { id, revision, body } = &**volume;
            let name = body.title.as_deref().map_or_else(|| id.to_string(), terms::title);
            html! {
                tr {
                    td {
                        input type="checkbox" name="volumeIDs" value=(id.as_str()) aria-label={ "Choose " (name) };
                    }
                    th scope="row" {
                        @let address = site.volume_iri(id);
                        @match &body.title {
                            Some(title) => {
                                a href=(local(&address)) { (terms::title(title)) }
                                br;
                                span.title { (id.as_str()) }
                            }
                            None => a href=(local(&address)) { (id.as_str()) }
                        }
                    }
                    td { (body.pub_date.as_deref().unwrap_or_default()) }
                    td { (body.language.as_deref().unwrap_or_default()) }
                    td.number { (body.pages.count) }
                    td.number { (terms::size(body.pages.bytes)) }
                    td { (terms::time(revision.time())) }
                }
            }
        }
    }
}

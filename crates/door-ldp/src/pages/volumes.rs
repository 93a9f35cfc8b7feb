//! The page of all volumes: a table with titles, a page at a time. Those that people choose come as
//! one ZIP, from the data door. The same of those that there were at the end of a second.

use ::volumes::{Listing, Then, Volume};
use axum::response::Response;
use door_http::Second;
use door_http::page::wide;
use futures::{StreamExt, TryStreamExt, stream};
use hathi::VolumeId;
use heads::{ObjectsError, RevisionId};
use library::Library;
use maud::{Markup, html};

use super::members::{MEMBERS, MEMBERS_MAX, READ_AT_ONCE, pager};
use super::members_then::Asked;
use super::{about_volumes, local, place, terms};
use crate::address::{Site, kept_volumes};
use crate::errors::LdpError;
use crate::paging::{Page, Place};
use crate::version_name::VersionName;

/// The layouts of a ZIP, in words.
const LAYOUTS: [(&str, &str); 3] =
    [("pages", "a file a page"), ("volumes", "a file a volume"), ("wordseq", "one text file")];

/// A second, as the data door reads it (RFC 3339).
const RFC_3339: &str = "%Y-%m-%dT%H:%M:%SZ";

/// A volume, or why nothing is known of it.
enum Row {
    Readable {
        volume: Box<Volume>,
        /// Where it is described.
        address: String,
    },
    /// Its head is damaged.
    Damaged(VolumeId),
    /// What it was is not kept.
    NotKept(VolumeId),
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
    let rows = stream::iter(volumes).map(|id| row(library, site, id)).buffered(READ_AT_ONCE);
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
                (table(site, &rows, Some(&find)))
                (download())
            }
        }
        (pager("Pages of the volumes", local(&iri), volumes_max, begins.as_ref(), next.as_ref()))
    };
    *response.body_mut() = about_volumes(site, None).with(&content).into();
    Ok(response)
}

/// The page of some volumes that there were at the end of a second, each as it was then.
pub async fn page_of_volumes_then(
    library: &Library,
    site: &Site,
    second: Second,
    asked: &Asked,
    mut response: Response,
) -> Result<Response, LdpError> {
    let below = second.end();
    let mut volumes = library.volumes.list_as_of(below).await?;
    let mut listed = asked.begin();
    while let Some(at_once) = listed.wants() {
        let Some(more) = volumes.more(at_once).await? else { break };
        listed.take(more);
    }
    let (ids, has_more) = listed.end();
    let rows = stream::iter(ids).map(|id| row_then(library, site, id, below)).buffered(READ_AT_ONCE);
    let rows: Vec<_> = rows.try_collect().await?;
    let archive = format!("{}volumes", local(&format!("{}/", site.server())));
    let content = html! {
        @if rows.is_empty() {
            p { @if asked.is_first() { "There were no volumes." } @else { "There are no more." } }
        } @else {
            form method="post" action=(archive) {
                input type="hidden" name="as_of" value=(second.written(RFC_3339));
                (table(site, &rows, None))
                (download())
            }
        }
        (asked.pager("Pages of the volumes", &site.volumes_then(VersionName::of_second(second)), has_more))
    };
    let mut page = about_volumes(site, None);
    page.title = format!("Volumes, {}", second.http());
    page.way.push(place("Volumes", &site.shown(&kept_volumes()).unwrap_or_default()));
    *response.body_mut() = page.with(&content).into();
    Ok(response)
}

/// Reads a volume as it was. The data door describes its version.
async fn row_then(library: &Library, site: &Site, id: VolumeId, below: RevisionId) -> Result<Row, LdpError> {
    let then = match library.volumes.versions(&id).await {
        Ok(versions) => versions.then(below).await,
        Err(error) => Err(error),
    };
    match then {
        Ok(Then::Version(volume)) => {
            let address = format!("{}/versions/{}", site.data_iri(&id), volume.revision);
            Ok(Row::Readable { volume, address })
        }
        Ok(Then::NotKept | Then::Absent) => Ok(Row::NotKept(id)),
        Err(error) if error.is_damage() => Ok(Row::Damaged(id)),
        Err(error) => Err(error.into()),
    }
}

/// Reads a volume; `None` if it is gone.
async fn row(library: &Library, site: &Site, id: VolumeId) -> Result<Option<Row>, LdpError> {
    match library.volumes.volume(&id).await {
        Ok(volume) => {
            let address = site.volume_iri(&id);
            Ok(Some(Row::Readable { volume: Box::new(volume), address }))
        }
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
fn table(site: &Site, rows: &[Row], find: Option<&str>) -> Markup {
    let head = |name: &str, by: &str| {
        html! {
            th scope="col" {
                @match find {
                    Some(find) => { a href=(format!("{find}&sort={by}")) { (name) } }
                    None => { (name) }
                }
            }
        }
    };
    let has_links = find.is_some() || rows.iter().any(|row| !matches!(row, Row::NotKept(_)));
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Choose" }
                    (head("Title", "title"))
                    (head("Date", "year"))
                    th scope="col" { "Language" }
                    th.number scope="col" { "Pages" }
                    th.number scope="col" { "Size" }
                    th scope="col" { "Changed" }
                }
            }
            tbody { @for row in rows { (shown(site, row)) } }
        }
    };
    wide(Some("Volumes").filter(|_| !has_links), &table)
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
        Row::NotKept(id) => html! {
            tr {
                td {}
                th scope="row" { (id.as_str()) }
                td { "not kept" } td {} td.number {} td.number {} td {}
            }
        },
        Row::Readable { volume, address } => {
            let Volume { id, revision, body } = &**volume;
            let name = body.title.as_deref().map_or_else(|| id.to_string(), terms::title);
            html! {
                tr {
                    td {
                        input type="checkbox" name="volumeIDs" value=(id.as_str()) aria-label={ "Choose " (name) };
                    }
                    th scope="row" {
                        @match &body.title {
                            Some(title) => {
                                a href=(local(address)) { (terms::title(title)) }
                                br;
                                span.title { (id.as_str()) }
                            }
                            None => a href=(local(address)) { (id.as_str()) }
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

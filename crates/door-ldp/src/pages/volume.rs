//! The page of a volume: what its record says, where its text is, and its pages with the numbers that
//! are printed on them, some at a time. `?page=` leads to one of them.

use ::volumes::{PageInfo, Volume};
use axum::response::Response;
use hathi::Seq;
use heads::ObjectsError;
use http::{HeaderValue, StatusCode, header};
use library::Library;
use maud::{Markup, html};

use super::volume_member::features;
use super::{about_volumes, local, terms};
use crate::address::Site;
use crate::errors::LdpError;
use crate::query::{self, Parameters};

/// Default number of pages that are listed together.
const LISTED: usize = 100;
/// Most pages that are listed together.
const LISTED_MAX: usize = 500;

/// The parameter that leads to a page.
const PAGE: &str = "page";

/// Which pages of a volume are listed.
pub struct Listed {
    /// So many pages come before.
    after: u32,
    count_max: u32,
    /// The page that is wanted instead of a list.
    page: Option<Seq>,
}

impl Listed {
    /// What a query requests: `after` so many pages, `limit` of them; or one `page`.
    pub fn of(query: Option<&str>) -> Result<Self, LdpError> {
        let known = [&query::OF_RESOURCES[..], &[PAGE]].concat();
        let asked = Parameters::among(query, &known)?;
        let number = |text: &str| text.parse().map_err(|_| "it is a number of pages".to_owned());
        let page = |text: &str| text.parse().ok().and_then(Seq::new).ok_or_else(|| "it is a number from 1".to_owned());
        let count_max = asked.number("limit", LISTED_MAX)?.unwrap_or(LISTED);
        Ok(Self {
            after: asked.read_as("after", number)?.unwrap_or(0),
            count_max: u32::try_from(count_max).unwrap_or(u32::MAX),
            page: asked.read_as(PAGE, page)?,
        })
    }
}

/// The page of a volume. `archive` is the address of its archive at the data door.
pub async fn page_of_volume(
    library: &Library,
    site: &Site,
    volume: &Volume,
    listed: &Listed,
    archive: &str,
    mut response: Response,
) -> Result<Response, LdpError> {
    let Listed { after, count_max, page } = *listed;
    if let Some(seq) = page {
        return to_page(&site.volume_iri(&volume.id), seq, response);
    }
    let end = after.saturating_add(count_max).min(volume.page_count());
    let pages = match library.volumes.page_list(&volume.id, after..end).await {
        // What is known of the volume is shown all the same.
        Err(error) if error.is_damage() => None,
        // It is replaced or deleted just now.
        Err(error @ (ObjectsError::Absent(_) | ObjectsError::Gone(_))) => return Err(error.into()),
        pages => Some(pages?),
    };
    let first = pages.as_ref().and_then(|pages| pages.first()).map(|page| page.seq);
    let title = volume.body.title.as_deref().map_or_else(|| volume.id.to_string(), terms::title);
    let mut page = about_volumes(site, Some(&volume.id));
    page.title = title;
    let content = html! {
        @if after == 0 {
            (facts(site, volume))
            (places(site, volume, archive, first))
        }
        h2 { "Pages" }
        (go_to_page(local(&site.volume_iri(&volume.id)), None, volume.page_count()))
        @match pages {
            None => { p.note role="alert" { "The list of these pages is damaged." } }
            Some(pages) if pages.is_empty() => { p { "There are no pages here." } }
            Some(pages) => {
                (table(site, volume, &pages))
                (pager(site, volume, listed, end))
            }
        }
    };
    *response.body_mut() = page.with(&content).into();
    Ok(response)
}

/// Sends the client to a page of a volume. `volume` is the address of the volume.
fn to_page(volume: &str, seq: Seq, mut response: Response) -> Result<Response, LdpError> {
    let location = HeaderValue::try_from(format!("{}/pages/{seq}", local(volume)));
    let location = location.map_err(|error| LdpError::Internal(error.to_string()))?;
    *response.status_mut() = StatusCode::SEE_OTHER;
    response.headers_mut().insert(header::LOCATION, location);
    Ok(response)
}

/// A form that leads to a page of a volume with so many pages; `here` is the page that is shown.
/// `volume` is the local address of the volume.
pub fn go_to_page(volume: &str, here: Option<Seq>, count: u32) -> Markup {
    html! {
        form.row action=(volume) {
            label { "Go to page " input type="number" name=(PAGE) min="1" required value=[here.map(Seq::get)]; }
            span { "of " (count) }
            button { "Go" }
        }
    }
}

/// What its record says of a volume, and how large it is.
fn facts(site: &Site, volume: &Volume) -> Markup {
    let Volume { id, revision, body } = volume;
    let of_record = [
        ("Date", &body.pub_date),
        ("Language", &body.language),
        ("Rights", &body.rights),
        ("Access", &body.access_profile),
    ];
    html! {
        dl.about {
            dt { "Id" } dd { code { (id.as_str()) } }
            @for (name, value) in of_record {
                @if let Some(value) = value { dt { (name) } dd { (terms::title(value)) } }
            }
            dt { "Pages" } dd { (body.pages.count) }
            dt { "Size of its text" } dd { (terms::size(body.pages.bytes)) }
            dt { "Changed" } dd { (terms::time(revision.time())) }
            dt { "Revision" } dd { code { (revision.to_string()) } }
            @if body.damaged > 0 { dt { "Damaged" } dd { (body.damaged) " of its files" } }
            dt { "Address" } dd { code { (site.volume_iri(id)) } }
        }
    }
}

/// Where its text and its other files are. `first` is its first page.
fn places(site: &Site, volume: &Volume, archive: &str, first: Option<Seq>) -> Markup {
    let address = site.volume_iri(&volume.id);
    let member = |name: &str| format!("{}/{name}", local(&address));
    html! {
        p.row {
            @if let Some(first) = first { a.button.primary href=(member(&format!("pages/{first}"))) { "Read" } }
            a.button href=(archive) { "ZIP, a file a page" }
            a.button href={ (archive) "&layout=volumes" } { "ZIP, one text file" }
            a.button href={ (archive) "&mets=true" } { "ZIP with METS" }
            a.button href={ (local(&site.data_iri(&volume.id))) "/text" } { "Plain text" }
            a.button href=(member("mets")) { "METS" }
            @if volume.body.record.is_some() { a.button href=(member("record")) { "Record" } }
        }
    }
}

fn table(site: &Site, volume: &Volume, pages: &[PageInfo]) -> Markup {
    let address = site.volume_iri(&volume.id);
    html! {
        p { "Pages are counted from the first image. The number that is printed on a page is beside it." }
        div.wide {
            table {
                thead {
                    tr {
                        th scope="col" { "Page" }
                        th scope="col" { "Printed number" }
                        th scope="col" { "What is on it" }
                        th.number scope="col" { "Size" }
                    }
                }
                tbody {
                    @for page in pages {
                        tr {
                            th scope="row" {
                                a href={ (local(&address)) "/pages/" (page.seq) } { (page.seq.get()) }
                            }
                            td { (page.label.as_deref().unwrap_or_default()) }
                            td { (features(page)) }
                            td.number { (terms::size(u64::from(page.size))) }
                        }
                    }
                }
            }
        }
    }
}

/// Links to the pages before and after those that are listed.
fn pager(site: &Site, volume: &Volume, listed: &Listed, end: u32) -> Markup {
    let address = site.volume_iri(&volume.id);
    let Listed { after, count_max, .. } = *listed;
    let at = |after: u32| format!("{}?limit={count_max}&after={after}", local(&address));
    html! {
        @if after > 0 || end < volume.page_count() {
            nav.row.pager aria-label="Pages of the volume" {
                @if after > 0 { a.button rel="prev" href=(at(after.saturating_sub(count_max))) { "Pages before" } }
                @else { span {} }
                @if end < volume.page_count() { a.button rel="next" href=(at(end)) { "Next pages" } }
            }
        }
    }
}

//! The members of a container, a page at a time: each with its title, kind, size and time.

use door_http::page::wide;
use futures::{StreamExt, TryStreamExt, stream};
use heads::{ListToken, ResourcePath, VOLUMES};
use library::Library;
use maud::{Markup, html};
use repository::{Kind, Resource, ResourceError};
use store::UnixMillis;

use super::terms::Title;
use super::{local, name_of, terms};
use crate::address::{At, Facet, Site, Target};
use crate::disposition;
use crate::errors::LdpError;
use crate::paging::{self, Place};
use crate::statements::paths_of;
use crate::stored::kept_description;

/// Members on a page if the client does not say.
pub const MEMBERS: usize = 50;
/// Most members on a page for people. Each of them is read.
pub const MEMBERS_MAX: usize = 200;
/// Members that are read together.
pub const READ_AT_ONCE: usize = 8;
/// Only descriptions of so many rows are searched for a title. So a page reads little, whatever its
/// members are.
const TITLE_ROWS_MAX: u32 = 1;

/// Some members of a container.
pub struct Members {
    rows: Vec<Row>,
    /// Where the page begins; `None`: at the first member.
    pub begins: Option<ListToken>,
    /// Where the next page begins.
    pub next: Option<ListToken>,
    /// Most members on a page.
    members_max: usize,
}

/// What is shown of a member. Its head may have much more.
pub enum Row {
    /// It can be read.
    Readable {
        /// The page of the state that is shown: of bytes, that of their description.
        page: Target,
        /// What it is, for people.
        kind: String,
        /// The size of its bytes that are stored here.
        len_bytes: Option<u64>,
        /// When it changed last.
        changed: UnixMillis,
        /// What people call it.
        title: Option<Title>,
    },
    /// Its head is damaged.
    Damaged(ResourcePath),
    /// What it was is not kept, or not shown.
    NotKept(ResourcePath),
}

impl Members {
    /// Reads some. What was deleted meanwhile is left out.
    pub async fn read(
        library: &Library,
        container: &Resource,
        place: &Place,
        members_max: usize,
    ) -> Result<Self, LdpError> {
        let page = place.members(library, container, members_max).await?;
        let rows = stream::iter(paths_of(container, &page.children)).map(|path| row(library, path));
        let rows = rows.buffered(READ_AT_ONCE).try_filter_map(async |row| Ok(row)).try_collect().await?;
        Ok(Self { rows, begins: page.begins, next: page.next, members_max })
    }

    /// As a table, with links to other pages.
    pub fn table(&self, site: &Site, container: &Resource) -> Markup {
        let is_first = self.begins.is_none();
        let volumes = ResourcePath::of_names([VOLUMES]).ok().filter(|_| container.path().is_root() && is_first);
        let iri = site.iri(container.path());
        let first = volumes.as_ref().map(|path| {
            html! {
                tr {
                    th scope="row" { a href=(local(&site.iri(path))) { (VOLUMES) } }
                    td { "Volumes" } td.number {} td {}
                }
            }
        });
        let is_empty = self.rows.is_empty() && volumes.is_none();
        html! {
            h2 { "Contents" }
            @if is_empty && self.next.is_some() {
                p { "All of this page was deleted meanwhile." }
            } @else if is_empty {
                p { @if is_first { "This container is empty." } @else { "There are no more." } }
            } @else {
                (table(site, first.as_ref(), &self.rows))
            }
            (pager("Pages of the contents", local(&iri), self.members_max, self.begins.as_ref(), self.next.as_ref()))
        }
    }
}

/// A table of members. `first` is a row before theirs, with a link.
pub fn table(site: &Site, first: Option<&Markup>, rows: &[Row]) -> Markup {
    let has_links = first.is_some() || rows.iter().any(|row| !matches!(row, Row::NotKept(_)));
    let table = html! {
        table {
            thead {
                tr {
                    th scope="col" { "Name" }
                    th scope="col" { "Kind" }
                    th.number scope="col" { "Size" }
                    th scope="col" { "Changed" }
                }
            }
            tbody {
                @if let Some(first) = first { (first) }
                @for row in rows { (row.shown(site)) }
            }
        }
    };
    wide(Some("Contents").filter(|_| !has_links), &table)
}

/// Links from a page of a container to other pages. `begins` and `next` are where it and the next
/// one begin; `None`: there is none before it, or after it.
pub fn pager(
    label: &str,
    address: &str,
    members_max: usize,
    begins: Option<&ListToken>,
    next: Option<&ListToken>,
) -> Markup {
    let page = |place: Place| paging::address(address, members_max, &place);
    let back = begins.map(|begins| [page(Place::Before(begins.clone())), page(Place::First)]);
    pager_to(label, back, next.map(|next| page(Place::After(next.clone()))))
}

/// Links from a page of a list to other pages, by their addresses. `back` has those of the previous
/// page and of the first one. `None`: there is none before it, or after it.
pub fn pager_to(label: &str, back: Option<[String; 2]>, next: Option<String>) -> Markup {
    html! {
        @if back.is_some() || next.is_some() {
            nav.row.pager aria-label=(label) {
                span.row {
                    @if let Some([previous, first]) = &back {
                        a.button rel="prev" href=(previous) { "Previous page" }
                        a href=(first) { "First page" }
                    }
                }
                @if let Some(next) = &next { a.button rel="next" href=(next) { "Next page" } }
            }
        }
    }
}

/// Reads a member; `None` if it is gone.
async fn row(library: &Library, path: ResourcePath) -> Result<Option<Row>, LdpError> {
    let resource = match library.repository.resource(&path).await {
        Ok(resource) => resource,
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => return Ok(None),
        Err(ResourceError::Objects(error)) if error.is_damage() => return Ok(Some(Row::Damaged(path))),
        Err(error) => return Err(error.into()),
    };
    Ok(Some(Row::of(library, resource, At::Present).await?))
}

/// What people call the resource at a path; `None` if it is gone, or says nothing.
pub async fn title_at(library: &Library, path: ResourcePath) -> Result<Option<Title>, LdpError> {
    match row(library, path).await? {
        Some(Row::Readable { title, .. }) => Ok(title),
        Some(Row::Damaged(_) | Row::NotKept(_)) | None => Ok(None),
    }
}

async fn title_of(library: &Library, resource: &Resource) -> Result<Option<Title>, LdpError> {
    if !(1..=TITLE_ROWS_MAX).contains(&resource.body().description.pieces) {
        return Ok(None);
    }
    Ok(terms::title_in(&kept_description(library, resource).await?, resource.path()))
}

impl Row {
    /// The row of a member in a state that has an address in time.
    pub async fn of(library: &Library, resource: Resource, at: At) -> Result<Self, LdpError> {
        let title = match title_of(library, &resource).await {
            // A damaged description does not hide what is known of its resource.
            Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => None,
            title => title?,
        };
        let title = title.or_else(|| filename(&resource));
        let facet = match resource.kind() {
            Kind::Binary(_) => Facet::Description,
            Kind::Container { .. } | Kind::RdfSource => Facet::Itself,
        };
        Ok(Self::Readable {
            page: Target { path: resource.path().clone(), facet, at },
            kind: kind(&resource),
            len_bytes: len_bytes(&resource),
            changed: resource.revision().time(),
            title,
        })
    }

    fn shown(&self, site: &Site) -> Markup {
        match self {
            Self::Readable { page, kind, len_bytes, changed, title } => {
                let name = name_of(&page.path);
                let title = title.as_ref().filter(|title| title.text != name);
                html! {
                    tr {
                        th scope="row" {
                            a href=(local(&site.iri_of_target(page))) { (name) }
                            @if let Some(title) = title { br; (title.shown()) }
                        }
                        td { (kind) }
                        td.number { @if let Some(len_bytes) = len_bytes { (terms::size(*len_bytes)) } }
                        td { (terms::time(*changed)) }
                    }
                }
            }
            Self::Damaged(path) => html! {
                tr {
                    th scope="row" { a href=(local(&site.iri(path))) { (name_of(path)) } }
                    td { "damaged" } td.number {} td {}
                }
            },
            Self::NotKept(path) => {
                html! { tr { th scope="row" { (name_of(path)) } td { "not kept" } td.number {} td {} } }
            }
        }
    }
}

/// What a resource is, for people.
pub fn kind(resource: &Resource) -> String {
    terms::title(match resource.kind() {
        Kind::Container { .. } if resource.is_group() => "Archival Group",
        Kind::Container { .. } => "Container",
        Kind::RdfSource => "Description",
        Kind::Binary(binary) if binary.media_type.is_empty() => "File",
        Kind::Binary(binary) => &binary.media_type,
    })
}

/// The size of the bytes that are stored here.
pub fn len_bytes(resource: &Resource) -> Option<u64> {
    let binary = resource.body().binary()?;
    binary.elsewhere().is_none().then_some(binary.len_bytes)
}

/// The file name that was given with bytes, as a title.
pub fn filename(resource: &Resource) -> Option<Title> {
    let name = disposition::filename(resource.body().binary()?.disposition.as_deref()?)?;
    Some(Title::new(terms::title(&name)))
}

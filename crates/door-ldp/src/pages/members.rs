//! The members of a container, a page at a time: each with its title, kind, size and time.

use futures::{StreamExt, TryStreamExt, stream};
use heads::{ListToken, ResourcePath, VOLUMES};
use library::Library;
use maud::{Markup, html};
use repository::{Kind, Resource, ResourceError};

use super::{local, name_of, terms};
use crate::address::{At, Facet, Site, Target};
use crate::disposition;
use crate::errors::LdpError;
use crate::paging;
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
    /// Where the next page begins.
    pub next: Option<ListToken>,
    /// Whether there may be some before.
    is_first: bool,
    /// Most members on a page.
    members_max: usize,
}

/// A member.
enum Row {
    Readable {
        resource: Box<Resource>,
        title: Option<String>,
    },
    /// Its head is damaged.
    Damaged(ResourcePath),
}

impl Members {
    /// Reads some. What was deleted meanwhile is left out.
    pub async fn read(
        library: &Library,
        container: &Resource,
        after: Option<&ListToken>,
        members_max: usize,
    ) -> Result<Self, LdpError> {
        let page = library.repository.children(container, after, members_max).await?;
        let rows = stream::iter(paths_of(container, &page.children)).map(|path| row(library, path));
        let rows = rows.buffered(READ_AT_ONCE).try_filter_map(async |row| Ok(row)).try_collect().await?;
        Ok(Self { rows, next: page.next, is_first: after.is_none(), members_max })
    }

    /// As a table, with links to other pages.
    pub fn table(&self, site: &Site, container: &Resource) -> Markup {
        let volumes = ResourcePath::of_names([VOLUMES]).ok().filter(|_| container.path().is_root() && self.is_first);
        let iri = site.iri(container.path());
        let is_empty = self.rows.is_empty() && volumes.is_none();
        html! {
            h2 { "Contents" }
            @if is_empty && self.next.is_some() {
                p { "All of this page was deleted meanwhile." }
            } @else if is_empty {
                p { @if self.is_first { "This container is empty." } @else { "There are no more." } }
            } @else {
                div.wide {
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
                            @if let Some(path) = volumes {
                                tr {
                                    th scope="row" { a href=(local(&site.iri(&path))) { (VOLUMES) } }
                                    td { "Volumes" } td.number {} td {}
                                }
                            }
                            @for row in &self.rows { (row.shown(site)) }
                        }
                    }
                }
            }
            (pager("Pages of the contents", local(&iri), self.members_max, self.is_first, self.next.as_ref()))
        }
    }
}

/// Links from a page of a container to other pages.
pub fn pager(label: &str, address: &str, members_max: usize, is_first: bool, next: Option<&ListToken>) -> Markup {
    let pages = |after| paging::address(address, members_max, after);
    html! {
        @if !is_first || next.is_some() {
            nav.row.pager aria-label=(label) {
                @if is_first { span {} } @else { a.button href=(pages(None)) { "First page" } }
                @if let Some(next) = next { a.button rel="next" href=(pages(Some(next))) { "Next page" } }
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
    let title = match title_of(library, &resource).await {
        // A damaged description does not hide what is known of its resource.
        Err(LdpError::Resource(ResourceError::Objects(error))) if error.is_damage() => None,
        title => title?,
    };
    let title = title.or_else(|| filename(&resource));
    Ok(Some(Row::Readable { resource: Box::new(resource), title }))
}

/// What people call the resource at a path; `None` if it is gone, or says nothing.
pub async fn title_at(library: &Library, path: ResourcePath) -> Result<Option<String>, LdpError> {
    match row(library, path).await? {
        Some(Row::Readable { title, .. }) => Ok(title),
        Some(Row::Damaged(_)) | None => Ok(None),
    }
}

async fn title_of(library: &Library, resource: &Resource) -> Result<Option<String>, LdpError> {
    if !(1..=TITLE_ROWS_MAX).contains(&resource.body().description.pieces) {
        return Ok(None);
    }
    Ok(terms::title_in(&kept_description(library, resource).await?, resource.path()))
}

impl Row {
    fn shown(&self, site: &Site) -> Markup {
        let (resource, title) = match self {
            Self::Readable { resource, title } => (resource, title),
            Self::Damaged(path) => {
                return html! {
                    tr {
                        th scope="row" { a href=(local(&site.iri(path))) { (name_of(path)) } }
                        td { "damaged" } td.number {} td {}
                    }
                };
            }
        };
        let name = name_of(resource.path());
        let title = title.as_deref().filter(|title| *title != name);
        html! {
            tr {
                th scope="row" {
                    a href=(local(&page_of(site, resource))) { (name) }
                    @if let Some(title) = title { br; span.title { (title) } }
                }
                td { (kind(resource)) }
                td.number { @if let Some(len_bytes) = len_bytes(resource) { (terms::size(len_bytes)) } }
                td { (terms::time(resource.revision().time())) }
            }
        }
    }
}

/// The address of a resource's page: of bytes, that of their description.
fn page_of(site: &Site, resource: &Resource) -> String {
    match resource.kind() {
        Kind::Binary(_) => {
            let path = resource.path().clone();
            site.iri_of_target(&Target { path, facet: Facet::Description, at: At::Present })
        }
        _ => site.iri(resource.path()),
    }
}

/// What a resource is, for people.
pub fn kind(resource: &Resource) -> &str {
    match resource.kind() {
        Kind::Container { .. } if resource.is_group() => "Archival Group",
        Kind::Container { .. } => "Container",
        Kind::RdfSource => "Description",
        Kind::Binary(binary) if binary.media_type.is_empty() => "File",
        Kind::Binary(binary) => &binary.media_type,
    }
}

/// The size of the bytes that are stored here.
pub fn len_bytes(resource: &Resource) -> Option<u64> {
    let binary = resource.body().binary()?;
    binary.elsewhere().is_none().then_some(binary.len_bytes)
}

/// The file name that was given with bytes.
pub fn filename(resource: &Resource) -> Option<String> {
    disposition::filename(resource.body().binary()?.disposition.as_deref()?)
}

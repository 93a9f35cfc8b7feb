//! Pages for people. `resource.rs` is the page of a resource: its statements (`described.rs`), its
//! members (`members.rs`, of a version `members_then.rs`) and a look at its bytes (`preview.rs`, of
//! a METS `mets.rs`). `versions.rs` is the page of its versions, and `compare.rs` (with `alike.rs`
//! and `changed_lines.rs`) says what two of them differ in. `deleted.rs` is the page of what was
//! deleted from a container, and `fixity.rs` that of a check. `volumes.rs` is the page of all
//! volumes, at present or at some time, `volume.rs` that of one, and `volume_member.rs` that of a
//! page of it, of its METS and of its record. Long answers are streams of statements with the same
//! head and foot.

mod alike;
mod changed_lines;
mod compare;
pub mod deleted;
mod described;
mod fixity;
mod members;
pub mod members_then;
mod mets;
mod preview;
mod resource;
pub mod search;
mod terms;
pub mod versions;
mod volume;
mod volume_member;
mod volumes;

pub use volume::{Listed, page_of_volume};
pub use volume_member::{Beginning, SHOWN_BYTES, page_of_member};
pub use volumes::{page_of_volumes, page_of_volumes_then};

use door_http::{Page, Place};
use hathi::VolumeId;
use heads::ResourcePath;

use crate::address::{At, Facet, Site, Target, kept_volumes};

/// The name of the root for people.
const ROOT_NAME: &str = "Repository";

/// The head and the foot of a page about a resource.
pub fn about(site: &Site, path: &ResourcePath, title: impl Into<String>) -> Page {
    let root = ResourcePath::root();
    let server = local(&format!("{}/", site.server())).to_owned();
    let mut way = Vec::new();
    if !path.is_root() {
        way.push(place(ROOT_NAME, &site.iri(&root)));
    }
    let names: Vec<_> = path.names().collect();
    for count in 1..names.len() {
        if let Ok(above) = ResourcePath::of_names(names[..count].iter().copied()) {
            way.push(place(names[count - 1], &site.iri(&above)));
        }
    }
    let search = site.search();
    let mut places =
        vec![Place::new("Volumes", format!("{server}volumes/?format=html")), place(ROOT_NAME, &site.iri(&root))];
    places.extend(search.as_deref().map(|search| place("Search", search)));
    places.push(Place::new("Account", format!("{server}sign-in")));
    Page {
        title: title.into(),
        style: local(&site.iri_of(&root, "style")).to_owned(),
        places,
        search: search.as_deref().map(local).map(str::to_owned),
        home: server,
        way,
    }
}

/// The same of a page about something of a resource: its versions, one of them, or a check.
pub fn about_part(site: &Site, target: &Target, title: impl Into<String>) -> Page {
    let mut page = about(site, &target.path, title);
    // Only bytes have a check, and their page is that of their description.
    let facet = if target.facet == Facet::Fixity { Facet::Description } else { target.facet };
    let at = |at| site.iri_of_target(&Target { at, facet, ..target.clone() });
    page.way.push(place(name_of(&target.path), &at(At::Present)));
    if let At::Version(_) = target.at {
        page.way.push(place("Versions", &at(At::All)));
    }
    page
}

/// The head and the foot of a page about all volumes, or about one of them.
pub fn about_volumes(site: &Site, id: Option<&VolumeId>) -> Page {
    let root = ResourcePath::root();
    let mut page = about(site, &root, id.map_or("Volumes", VolumeId::as_str));
    page.way = vec![place(ROOT_NAME, &site.iri(&root))];
    if id.is_some() {
        page.way.push(place("Volumes", &site.shown(&kept_volumes()).unwrap_or_default()));
    }
    page
}

fn place(name: &str, iri: &str) -> Place {
    Place::new(name, local(iri))
}

/// An address of this server without scheme and host, so that pages work under all its names.
pub fn local(iri: &str) -> &str {
    let Some((_, rest)) = iri.split_once("://") else { return iri };
    rest.find('/').map_or("/", |path| &rest[path..])
}

/// The name of a resource for people, if it has no title: the last one of its path.
pub fn name_of(path: &ResourcePath) -> &str {
    path.names().last().unwrap_or(ROOT_NAME)
}

#[cfg(test)]
mod tests {
    use super::local;

    #[test]
    fn a_local_address_has_no_host() {
        for (iri, address) in [
            ("http://a:1/rest/x", "/rest/x"),
            ("https://a", "/"),
            ("http://a/?b=c://d", "/?b=c://d"),
            ("urn:x", "urn:x"),
        ] {
            assert_eq!(local(iri), address, "{iri}");
        }
    }
}

//! Pages for people. `resource.rs` is the page of a resource, of its statements (`described.rs`),
//! its members (`members.rs`) and a look at its bytes (`preview.rs`). `timeline.rs` lists its versions and compares two of them. Long answers, such as all volumes, are streams of statements with the same head and
//! foot.

mod described;
mod members;
mod preview;
mod resource;
mod terms;
pub mod timeline;

use door_http::{Page, Place};
use hathi::VolumeId;
use heads::ResourcePath;

use crate::address::{Site, kept_volumes};

/// The name of the root for people.
pub const ROOT_NAME: &str = "Repository";

/// The head and the foot of a page about something at a path.
pub fn about(site: &Site, path: &ResourcePath, title: impl Into<String>) -> Page {
    let root = ResourcePath::root();
    let mut way = Vec::new();
    if !path.is_root() {
        way.push(Place::new(ROOT_NAME, site.iri(&root)));
    }
    let names: Vec<_> = path.names().collect();
    for count in 1..names.len() {
        if let Ok(above) = ResourcePath::of_names(names[..count].iter().copied()) {
            way.push(Place::new(names[count - 1], site.iri(&above)));
        }
    }
    Page {
        title: title.into(),
        style: site.iri_of(&root, "style"),
        home: format!("{}/", site.origin()),
        places: vec![
            Place::new("Volumes", format!("{}/volumes/?format=html", site.origin())),
            Place::new(ROOT_NAME, site.iri(&root)),
        ],
        way,
    }
}

/// The head and the foot of a page about all volumes, or about one of them.
pub fn about_volumes(site: &Site, id: Option<&VolumeId>) -> Page {
    let mut page = about(site, &ResourcePath::root(), id.map_or("Volumes", VolumeId::as_str));
    page.way = vec![Place::new(ROOT_NAME, site.iri(&ResourcePath::root()))];
    if id.is_some() {
        page.way.push(Place::new("Volumes", site.shown(&kept_volumes()).unwrap_or_default()));
    }
    page
}

/// The name of a resource for people, if it has no title: the last one of its path.
pub fn name_of(path: &ResourcePath) -> &str {
    path.names().last().unwrap_or(ROOT_NAME)
}

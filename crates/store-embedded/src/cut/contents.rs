//! The part of a cut that is files of large contents.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use store::{ContentId, ContentState, StoreError, StoreResult, UnixMillis};

use super::link;
use crate::files::io_error;
use crate::header::{header_in, id_of_file};
use crate::private;
use crate::tables::View;

/// The contents whose files are linked, by the folder that they are in.
pub(super) type Linked = Vec<BTreeSet<ContentId>>;

/// Links the files of all contents. Some may be removed meanwhile.
pub(super) fn link_all(from: &Path, to: &Path) -> StoreResult<Linked> {
    let linking = |source| io_error("linking contents of", from, source);
    let link_shard = |shard: u8| {
        let (from, to) = (from.join(shard_name(shard)), to.join(shard_name(shard)));
        let mut linked = BTreeSet::new();
        for id in list(&from)? {
            if linked.is_empty() {
                private::create_folders(&to)?;
            }
            if is_linked(&from, &to, id)? {
                linked.insert(id);
            }
        }
        Ok(linked)
    };
    (0..=u8::MAX).map(|shard| link_shard(shard).map_err(linking)).collect()
}

/// Links what came since [`link_all`]. Nobody removes a file meanwhile.
pub(super) fn link_new(from: &Path, to: &Path, linked: &Linked, view: &View<'_>, now: UnixMillis) -> StoreResult<()> {
    let linking = |source| io_error("linking contents of", from, source);
    for (shard, linked) in (0..=u8::MAX).zip(linked) {
        let (from, to) = (from.join(shard_name(shard)), to.join(shard_name(shard)));
        let present = list(&from).map_err(linking)?;
        for id in present.difference(linked) {
            if is_whole(view, *id, now)? {
                private::create_folders(&to).map_err(linking)?;
                is_linked(&from, &to, *id).map_err(linking)?;
            }
        }
    }
    Ok(())
}

/// Removes the links to contents that are not sealed in the view, or that it does not have. Their
/// files may still grow. A store that opens the cut deletes what is left of them.
pub(super) fn unlink_others(to: &Path, linked: &Linked, view: &View<'_>, now: UnixMillis) -> StoreResult<()> {
    for (shard, linked) in (0..=u8::MAX).zip(linked) {
        let to = to.join(shard_name(shard));
        for id in linked {
            if !is_whole(view, *id, now)? {
                let path = to.join(id.to_string());
                fs::remove_file(&path).map_err(|source| io_error("removing", &path, source))?;
            }
        }
    }
    Ok(())
}

/// Whether a content is sealed: its file never changes. If its header cannot be read, it may be.
fn is_whole(view: &View<'_>, id: ContentId, now: UnixMillis) -> StoreResult<bool> {
    match header_in(view, id, now) {
        Err(StoreError::Corrupt { .. }) => Ok(true),
        header => Ok(header?.is_some_and(|(_, header)| header.state == ContentState::Sealed)),
    }
}

fn shard_name(shard: u8) -> String {
    format!("{shard:02x}")
}

/// The contents of a folder, which may be missing.
fn list(shard: &Path) -> io::Result<BTreeSet<ContentId>> {
    let entries = match fs::read_dir(shard) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        entries => entries?,
    };
    let mut ids = BTreeSet::new();
    for entry in entries {
        ids.extend(entry?.file_name().to_str().and_then(id_of_file));
    }
    Ok(ids)
}

/// Links a file. Returns false if there is none any more.
fn is_linked(from: &Path, to: &Path, id: ContentId) -> io::Result<bool> {
    let name = id.to_string();
    match link(&from.join(&name), &to.join(&name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        linked => linked.map(|()| true),
    }
}

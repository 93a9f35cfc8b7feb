//! The part of a cut that is files of large contents.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use store::{ContentId, StoreError, StoreResult, UnixMillis};

use super::link;
use crate::folder::io_error;
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

/// Links what came since [`link_all`] and removes what went, as far as the headers of the cut say
/// so. Nobody removes a file meanwhile.
pub(super) fn link_changed(
    from: &Path,
    to: &Path,
    linked: &mut Linked,
    view: &View<'_>,
    now: UnixMillis,
) -> StoreResult<()> {
    let linking = |source| io_error("linking contents of", from, source);
    let has_header = |id| match header_in(view, id, now) {
        Err(StoreError::Corrupt { .. }) => Ok(true),
        header => Ok::<_, StoreError>(header?.is_some()),
    };
    for (shard, linked) in (0..=u8::MAX).zip(linked) {
        let (from, to) = (from.join(shard_name(shard)), to.join(shard_name(shard)));
        let present = list(&from).map_err(linking)?;
        for id in linked.difference(&present) {
            if !has_header(*id)? {
                fs::remove_file(to.join(id.to_string())).map_err(linking)?;
            }
        }
        for id in present.difference(linked) {
            if has_header(*id)? {
                private::create_folders(&to).map_err(linking)?;
                is_linked(&from, &to, *id).map_err(linking)?;
            }
        }
    }
    Ok(())
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

//! Handles damage that is found while something of a volume is read.

use hathi::VolumeId;
use heads::{ObjectsError, ObjectsResult};
use library::Library;
use volumes::damage::WHOLE_VOLUME;

/// Reads something of a volume's current revision. Damage is marked, so that later requests know of
/// it.
///
/// Damaged data is read again at a known revision, and that revision is marked. So a volume that
/// was replaced meanwhile is not marked for its predecessor.
pub async fn noted<T, F>(library: &Library, id: &VolumeId, read: impl Fn(Library, VolumeId) -> F) -> ObjectsResult<T>
where
    F: Future<Output = ObjectsResult<T>>,
{
    match read(library.clone(), id.clone()).await {
        Err(error) if error.is_damage() => {}
        read => return read,
    }
    let revision = library.volumes.volume(id).await?.revision;
    let again = read(library.clone(), id.clone()).await;
    if let Err(ObjectsError::Damaged { member, detail, .. }) = &again {
        let marked = library.volumes.mark_damaged(id, revision, member.unwrap_or(WHOLE_VOLUME), detail).await;
        if let Err(error) = marked {
            tracing::warn!(%id, %error, "damage could not be marked");
        }
    }
    again
}

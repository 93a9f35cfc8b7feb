//! What is done when a volume turns out to be damaged while one thing of it is read.

use hathi::VolumeId;
use objects::damage::WHOLE_VOLUME;
use objects::{Library, ObjectsError, ObjectsResult};

/// Reads something of a volume's current revision; what is damaged is marked, so that everybody who asks later knows.
///
/// Damage is read again under a revision that is known, and that revision is marked: a volume that was replaced meanwhile is not
/// blamed for the one before.
pub async fn noted<T, F>(library: &Library, id: &VolumeId, read: impl Fn(Library, VolumeId) -> F) -> ObjectsResult<T>
where
    F: Future<Output = ObjectsResult<T>>,
{
    match read(library.clone(), id.clone()).await {
        Err(error) if error.is_damage() => {}
        read => return read,
    }
    let revision = library.volume(id).await?.revision;
    let again = read(library.clone(), id.clone()).await;
    if let Err(ObjectsError::Damaged { member, detail, .. }) = &again {
        let marked = library.mark_damaged(id, revision, member.unwrap_or(WHOLE_VOLUME), detail).await;
        if let Err(error) = marked {
            tracing::warn!(%id, %error, "damage could not be marked");
        }
    }
    again
}

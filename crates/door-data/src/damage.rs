//! Handles damage that is found while something of a volume is read.

use heads::{ObjectsError, ObjectsResult};
use library::Library;
use volumes::Volume;
use volumes::damage::WHOLE_VOLUME;

use crate::in_time::Asked;

/// Reads something of a volume at the requested revision. Damage is marked, so that later requests
/// know of it.
///
/// Before that it is read again, because the volume may have been replaced meanwhile, so that what
/// was read is gone.
pub async fn noted<T, F>(library: &Library, asked: &Asked, read: impl Fn(Library, Volume) -> F) -> ObjectsResult<T>
where
    F: Future<Output = ObjectsResult<T>>,
{
    let volume = asked.volume(library).await?;
    match read(library.clone(), volume).await {
        Err(error) if error.is_damage() => {}
        read => return read,
    }
    let volume = asked.volume(library).await?;
    let revision = volume.revision;
    let again = read(library.clone(), volume).await;
    if let Err(ObjectsError::Damaged { member, detail, .. }) = &again {
        let member = member.unwrap_or(WHOLE_VOLUME);
        let marked = library.volumes.mark_damaged(&asked.id, revision, member, detail).await;
        if let Err(error) = marked {
            tracing::warn!(id = %asked.id, %error, "damage could not be marked");
        }
    }
    again
}

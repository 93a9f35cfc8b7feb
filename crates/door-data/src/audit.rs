//! Audit records besides those of [`volumes::Volumes`] and [`audit::Auditor::page`]: pages of which
//! no text is sent (HEAD, 304), and members of a volume that are not pages.

use ::audit::{AuditAction, AuditedVolume, Requester};
use hathi::{Seq, VolumeId};
use library::Library;

use crate::errors::DoorError;

/// Records a request for a page of which no text is sent.
pub async fn page_requested(
    library: &Library,
    id: &VolumeId,
    seq: Seq,
    requester: &Requester,
) -> Result<(), DoorError> {
    let page = AuditedVolume { volume: id.clone(), pages: Some(vec![seq.get()]) };
    Ok(library.audit.auditor().requested(requester, None, [page]).await?)
}

/// Records a request for a volume's METS or record and, if it is about to be sent, the access.
pub async fn member(library: &Library, id: &VolumeId, requester: &Requester, is_sent: bool) -> Result<(), DoorError> {
    let no_page = || [AuditedVolume { volume: id.clone(), pages: Some(Vec::new()) }];
    library.audit.auditor().requested(requester, None, no_page()).await?;
    if is_sent {
        library.audit.auditor().accessed(requester, AuditAction::Accessed, None, no_page()).await?;
    }
    Ok(())
}

//! Audit records besides those of [`Volumes::stream`] and [`audit::Auditor::page`]: requests that
//! are answered without a text (HEAD, 304, a new selection), and members of a volume that are not
//! pages.

use ::audit::{AuditAction, AuditedVolume, Requester};
use hathi::{Seq, VolumeId};
use library::Library;
use pack::GroupPages;
use volumes::{BulkPlan, MissingPart};

use crate::errors::DoorError;

/// Records a request for what a plan names, and what it lacks.
pub async fn plan_requested(library: &Library, plan: &BulkPlan, requester: &Requester) -> Result<(), DoorError> {
    Ok(library.audit.auditor().requested(requester, plan.etag.as_deref(), asked_by(plan)?).await?)
}

/// Records a new selection of what a plan names, and what it lacks.
pub async fn plan_selected(library: &Library, plan: &BulkPlan, requester: &Requester) -> Result<(), DoorError> {
    Ok(library.audit.auditor().selected(requester, plan.etag.as_deref(), asked_by(plan)?).await?)
}

fn asked_by(plan: &BulkPlan) -> Result<Vec<AuditedVolume>, DoorError> {
    let mut asked = Vec::with_capacity(plan.archive.groups.len() + plan.missing.len());
    for (index, group) in plan.archive.groups.iter().enumerate() {
        let pages = match &group.pages {
            GroupPages::All { .. } => None,
            GroupPages::Some(pages) => Some(pages.iter().map(|page| page.seq).collect()),
        };
        asked.push(AuditedVolume { volume: plan.volume_id(index)?, pages });
    }
    asked.extend(plan.missing.iter().map(|missing| AuditedVolume {
        volume: missing.volume.clone(),
        pages: match missing.part {
            MissingPart::Page(seq) => Some(vec![seq]),
            MissingPart::Volume | MissingPart::Mets => None,
        },
    }));
    Ok(asked)
}

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

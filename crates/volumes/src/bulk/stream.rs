//! Streams the archive of a plan.

use std::ops::Range;
use std::sync::Arc;
use store::boxed;

use audit::{AuditAction, Requester};
use budget::Party;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use heads::error::{ObjectsError, ObjectsResult};
use pack::{ArchiveError, Level};
use parking_lot::Mutex;

use super::planned::BulkPlan;
use super::source::PlanSource;
use super::trail::Windows;
use crate::bulk::fairness::{Admission, BulkStream};
use crate::handle::Volumes;

/// The longest range that is sent at once, whatever the client does afterwards.
const SHORT_RANGE_BYTES: u64 = 4 << 20;

/// One request for a plan's archive. The audit has it, and it may stream several ranges.
pub struct Download {
    handle: Volumes,
    plan: Arc<BulkPlan>,
    requester: Requester,
    /// The place among the bulk requests, which its first range takes.
    admission: Mutex<Option<Admission>>,
}

impl Download {
    pub(super) fn plan(&self) -> &Arc<BulkPlan> {
        &self.plan
    }

    pub(super) fn handle(&self) -> &Volumes {
        &self.handle
    }

    pub(super) fn requester(&self) -> &Requester {
        &self.requester
    }

    /// The place of the next range: the first one has one already.
    pub(super) fn admission(&self) -> ObjectsResult<Admission> {
        let first = self.admission.lock().take();
        first.map_or_else(|| self.handle.inner.fairness.admit(self.requester.party()), Ok)
    }

    /// Streams a range of the archive. [`pack::WHOLE`] means all of it, and is the only range if
    /// the length is unknown.
    ///
    /// A volume's access is in the audit before its first byte leaves. Refused with
    /// [`ObjectsError::Overloaded`] while the audit lags or too many requests are streaming.
    ///
    /// The stream ends with an error, never short without notice: on damage (marked before the
    /// error is reported, so that the next request gets a whole archive), when the plan expires,
    /// and when the store stays unavailable after several tries.
    #[boxed]
    pub async fn stream(&self, range: Range<u64>) -> ObjectsResult<BulkStream> {
        let Self { handle, plan, requester, .. } = self;
        if range != pack::WHOLE && plan.len_bytes.is_none_or(|len| range.start > range.end || range.end > len) {
            return Err(ObjectsError::Invalid(format!("bytes {range:?} cannot be asked of this archive")));
        }
        let admission = self.admission()?;
        let windows = handle.windows(plan, &range, &requester.party()).await?;
        let (handle, requester) = (handle.clone(), requester.clone());
        let source = Arc::new(PlanSource::for_stream(handle, plan, requester, AuditAction::Accessed, windows));
        let pieces = pieces(plan.clone(), source, range);
        // Recompression takes time, which is better spent before the client waits.
        let takes_time = matches!(plan.archive.level, Level::Recompressed(_));
        Ok(if takes_time { admission.run_ahead(pieces) } else { admission.run_along(pieces) })
    }
}

impl Volumes {
    /// How many bulk requests are streaming now.
    pub fn streaming(&self) -> usize {
        self.inner.fairness.active()
    }

    /// Begins a download. The request is in the audit before this returns. Refused with
    /// [`ObjectsError::Overloaded`] while the audit lags or too many requests are streaming.
    #[boxed]
    pub async fn download(&self, plan: &Arc<BulkPlan>, requester: Requester) -> ObjectsResult<Download> {
        let admission = Mutex::new(Some(self.admit_bulk(plan, &requester).await?));
        Ok(Download { handle: self.clone(), plan: plan.clone(), requester, admission })
    }

    /// A download of one range: [`Volumes::download`], then [`Download::stream`].
    #[boxed]
    pub async fn stream(
        &self,
        plan: &Arc<BulkPlan>,
        range: Range<u64>,
        requester: Requester,
    ) -> ObjectsResult<BulkStream> {
        self.download(plan, requester).await?.stream(range).await
    }

    /// The volumes that a range touches. Those of a short range are certainly sent, so they are one
    /// window of the audit.
    async fn windows(&self, plan: &BulkPlan, range: &Range<u64>, party: &Party) -> ObjectsResult<Windows> {
        if *range == pack::WHOLE {
            return Ok(Windows { sent: 0..plan.archive.groups.len(), first: 1 });
        }
        let (archive, volumes) = (plan.archive.clone(), plan.volumes.clone());
        let source = PlanSource::for_planning(self.clone(), archive, volumes, plan.started, party.clone());
        let sent = plan.archive.groups_within(&source, range.clone()).await?;
        let is_short = range.end - range.start <= SHORT_RANGE_BYTES;
        Ok(Windows { first: if is_short { sent.len() } else { 1 }, sent })
    }

    /// Takes a place among the bulk requests and records the request.
    pub(super) async fn admit_bulk(&self, plan: &BulkPlan, requester: &Requester) -> ObjectsResult<Admission> {
        let auditor = self.audit.auditor();
        auditor.check_lag()?;
        let party = requester.party();
        let admission = self.inner.fairness.admit(party)?;
        self.plan_requested(plan, requester).await?;
        Ok(admission)
    }

    /// Records a request for what a plan has, and what it lacks. Refused while the audit lags.
    #[boxed]
    pub async fn plan_requested(&self, plan: &BulkPlan, requester: &Requester) -> ObjectsResult<()> {
        let _turn = self.inner.fairness.recording_turn(&requester.party()).await?;
        self.audit.auditor().requested(requester, plan.etag.as_deref(), plan.asked()?).await
    }

    /// Records a new selection of what a plan has, and what it lacks. Refused while the audit lags.
    #[boxed]
    pub async fn plan_selected(&self, plan: &BulkPlan, requester: &Requester) -> ObjectsResult<()> {
        let _turn = self.inner.fairness.recording_turn(&requester.party()).await?;
        self.audit.auditor().selected(requester, plan.etag.as_deref(), plan.asked()?).await
    }
}

/// The archive's bytes. Whatever ends them, noticed damage is marked before the end is reported.
/// They hold the plan, with its shares of memory, as long as they are read.
fn pieces(
    plan: Arc<BulkPlan>,
    source: Arc<PlanSource>,
    range: Range<u64>,
) -> impl Stream<Item = ObjectsResult<Bytes>> + Send + 'static {
    let at_the_end = source.clone();
    let archive = plan.archive.clone();
    let marked = futures::stream::once(async move {
        at_the_end.mark_noticed().await;
        drop(plan);
    });
    let pieces = pack::stream(archive, source.clone(), range).then(move |piece| {
        let source = source.clone();
        async move {
            match piece {
                Ok(piece) => Ok(piece),
                Err(error) => {
                    if let ArchiveError::Mismatch { group, reason } = &error {
                        source.mark_mismatch(group, reason).await;
                    }
                    source.mark_noticed().await;
                    Err(error.into())
                }
            }
        }
    });
    pieces.chain(marked.filter_map(|()| std::future::ready(None)))
}

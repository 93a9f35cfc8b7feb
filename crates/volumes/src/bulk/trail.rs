//! The audit trail of a stream: records what is about to be sent, one window of volumes ahead.
//! While a window is sent, the next one is written, so that the stream does not wait for the disk.

use std::ops::Range;
use std::sync::Arc;

use audit::{AuditAction, Requester};
use heads::error::{ObjectsError, ObjectsResult};
use pack::Archive;
use parking_lot::Mutex;
use tokio_util::task::AbortOnDropHandle;

use super::planned::BulkPlan;
use super::retry::retried;
use crate::handle::Volumes;

/// The most volumes of an audit window. Windows begin with one volume and double, so that a request
/// that reads little of a long archive is not recorded as having read much.
const AUDIT_WINDOW_MAX: usize = 64;

/// The requester and the action under which a stream's volumes are recorded.
#[derive(Clone)]
struct Writer {
    handle: Volumes,
    archive: Arc<Archive>,
    requester: Requester,
    action: AuditAction,
    plan: Option<String>,
}

impl Writer {
    async fn write(&self, window: Range<usize>) -> ObjectsResult<()> {
        let volumes = BulkPlan::audited(&self.archive, window)?;
        let plan = self.plan.as_deref();
        let auditor = self.handle.audit.auditor();
        retried(|| auditor.accessed(&self.requester, self.action, plan, volumes.clone())).await
    }
}

/// A window that is being written. Dropping the stream aborts the write.
type Ahead = (Range<usize>, AbortOnDropHandle<ObjectsResult<()>>);

/// The trail of one stream.
pub(super) struct AuditTrail {
    writer: Writer,
    windows: Windows,
    /// The groups of the window that is being sent. The audit has it.
    written: Mutex<Range<usize>>,
    /// The next window, while it is being written.
    ahead: Mutex<Option<Ahead>>,
}

impl AuditTrail {
    /// The trail of a stream that sends groups of a plan, divided into `windows`.
    pub(super) fn new(
        handle: Volumes,
        plan: &BulkPlan,
        requester: Requester,
        action: AuditAction,
        windows: Windows,
    ) -> Self {
        let (archive, plan) = (plan.archive.clone(), plan.etag.clone());
        let writer = Writer { handle, archive, requester, action, plan };
        Self { writer, windows, written: Mutex::default(), ahead: Mutex::default() }
    }

    /// Makes sure that a group is in the audit before any of it is sent.
    pub(super) async fn before_group(&self, group: usize) -> ObjectsResult<()> {
        if !self.written.lock().contains(&group) {
            let window = self.written_now(group).await?;
            *self.written.lock() = window;
        }
        self.write_ahead(group);
        Ok(())
    }

    /// Returns the window of a group, once it is in the audit.
    async fn written_now(&self, group: usize) -> ObjectsResult<Range<usize>> {
        let ahead = self.ahead.lock().take().filter(|(window, _)| window.contains(&group));
        if let Some((window, writing)) = ahead {
            writing.await.map_err(|error| ObjectsError::Internal(format!("writing the audit: {error}")))??;
            return Ok(window);
        }
        let window = self.windows.at(group, 0);
        self.writer.write(window.clone()).await?;
        Ok(window)
    }

    /// Begins to write the next window once half of the current one is sent.
    fn write_ahead(&self, group: usize) {
        let written = self.written.lock().clone();
        let mut ahead = self.ahead.lock();
        if ahead.is_some() || written.end >= self.windows.sent.end || 2 * (group - written.start) + 1 < written.len() {
            return;
        }
        let window = self.windows.at(written.end, written.len());
        let (writer, to_write) = (self.writer.clone(), window.clone());
        let writing = tokio::spawn(async move { writer.write(to_write).await });
        *ahead = Some((window, AbortOnDropHandle::new(writing)));
    }
}

/// How the groups that a stream sends are divided into windows.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    /// The groups that the stream may send.
    pub(super) sent: Range<usize>,
    /// The number of groups in the first window.
    pub(super) first: usize,
}

impl Windows {
    /// The window that begins with `group`, after one of `before` groups (0: none).
    fn at(&self, group: usize, before: usize) -> Range<usize> {
        let len = if before == 0 { self.first } else { 2 * before };
        group..(group + len.clamp(1, AUDIT_WINDOW_MAX)).min(self.sent.end.max(group + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All windows of a stream, in order.
    fn all(windows: &Windows) -> Vec<Range<usize>> {
        let mut all: Vec<Range<usize>> = vec![windows.at(windows.sent.start, 0)];
        while let Some(last) = all.last().filter(|last| last.end < windows.sent.end).cloned() {
            all.push(windows.at(last.end, last.len()));
        }
        all
    }

    #[test]
    fn windows_double_up_to_their_bound_and_cover_each_group_once() {
        let windows = all(&Windows { sent: 0..300, first: 1 });
        let lens: Vec<usize> = windows.iter().map(Range::len).collect();
        assert_eq!(lens, [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]);
        assert!(windows.into_iter().flatten().eq(0..300));
    }

    #[test]
    fn who_resumes_in_the_middle_begins_with_a_small_window_there() {
        assert_eq!(all(&Windows { sent: 10..14, first: 1 }), [10..11, 11..13, 13..14]);
    }

    #[test]
    fn a_short_range_has_one_window_of_just_what_it_sends() {
        let short = Windows { sent: 10..17, first: 7 };
        assert_eq!((all(&short).len(), short.at(10, 0)), (1, 10..17));
        assert_eq!(all(&Windows { sent: 10..100, first: 90 }), [10..74, 74..100]);
    }
}

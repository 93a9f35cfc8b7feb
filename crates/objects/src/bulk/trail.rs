//! The trail that a stream leaves in the audit: what it is about to send, a window of volumes ahead.

use std::ops::Range;

use pack::Archive;
use parking_lot::Mutex;

use super::plan::BulkPlan;
use super::retry::retried;
use crate::audit::{AuditAction, Auditor, Requester};
use crate::error::ObjectsResult;

/// Volumes of an audit window at most. Windows begin with one volume and double, so that a request that reads little of a long
/// archive is not said to have read much.
const AUDIT_WINDOW_MAX: usize = 64;

/// For whom, and as what, a stream's volumes are recorded.
pub(super) struct AuditTrail {
    requester: Requester,
    action: AuditAction,
    plan: Option<String>,
    /// The groups of the window that was written last.
    written: Mutex<Range<usize>>,
}

impl AuditTrail {
    pub(super) fn new(requester: Requester, action: AuditAction, plan: Option<String>) -> Self {
        Self { requester, action, plan, written: Mutex::new(0..0) }
    }

    /// Sees to it that a group is in the audit before any of it is sent.
    pub(super) async fn before_group(&self, auditor: &Auditor, archive: &Archive, group: usize) -> ObjectsResult<()> {
        let Some(window) = self.window(group, archive.groups.len()) else { return Ok(()) };
        let volumes = BulkPlan::audited(archive, window.clone())?;
        let plan = self.plan.as_deref();
        retried(|| auditor.accessed(&self.requester, self.action, plan, volumes.clone())).await?;
        *self.written.lock() = window;
        Ok(())
    }

    /// The window that is to be written before `group` is sent; `None`: it is in the last one.
    fn window(&self, group: usize, groups: usize) -> Option<Range<usize>> {
        let written = self.written.lock();
        if written.contains(&group) {
            return None;
        }
        let len = (2 * written.len()).clamp(1, AUDIT_WINDOW_MAX);
        Some(group..(group + len).min(groups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The windows that are written while groups `from..groups` are sent one after the other.
    fn windows(from: usize, groups: usize) -> Vec<Range<usize>> {
        let trail = AuditTrail::new(Requester::default(), AuditAction::Accessed, None);
        let mut windows = Vec::new();
        for group in from..groups {
            if let Some(window) = trail.window(group, groups) {
                *trail.written.lock() = window.clone();
                windows.push(window);
            }
        }
        windows
    }

    #[test]
    fn windows_double_up_to_their_bound_and_cover_each_group_once() {
        let written = windows(0, 300);
        let lens: Vec<usize> = written.iter().map(Range::len).collect();
        assert_eq!(lens, [1, 2, 4, 8, 16, 32, 64, 64, 64, 45]);
        assert!(written.into_iter().flatten().eq(0..300));
    }

    #[test]
    fn who_resumes_in_the_middle_begins_with_a_small_window_there() {
        assert_eq!(windows(10, 14), [10..11, 11..13, 13..14]);
    }
}

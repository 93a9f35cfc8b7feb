//! A page of a timeline with the newest version first, and with the ends of what was deleted.

use std::ops::Range;

use store::{Direction, boxed};

use super::{HIDDEN_MAX, Shown, Timeline, is_version};
use crate::error::ObjectsResult;
use crate::head::Head;
use crate::revision::RevisionId;
use crate::version_marks::Listed;

impl Timeline {
    /// At most `max` versions of these revisions that `is_shown`, kept or not, but not hidden by its
    /// marks, newest first. The head that ended an incarnation is before the newest version of it,
    /// and does not count; where versions are explicit, ends are not looked for. `view` makes an
    /// entry of each head.
    pub async fn newest_first<T>(
        &self,
        revisions: Range<RevisionId>,
        max: usize,
        is_shown: Shown,
        view: impl Fn(&Head) -> T,
    ) -> ObjectsResult<Vec<T>> {
        Ok(self.newest_heads(revisions, max, is_shown).await?.iter().map(view).collect())
    }

    #[boxed]
    async fn newest_heads(
        &self,
        revisions: Range<RevisionId>,
        max: usize,
        is_shown: Shown,
    ) -> ObjectsResult<Vec<Head>> {
        let read = || async {
            match self.listed == Listed::Asked {
                true => self.newest_asked(revisions.clone(), max, is_shown).await,
                false => self.newest_kept(revisions.clone(), max, is_shown).await,
            }
        };
        self.heads.retry_transient(read).await
    }

    async fn newest_asked(
        &self,
        Range { start, end }: Range<RevisionId>,
        max: usize,
        is_shown: Shown,
    ) -> ObjectsResult<Vec<Head>> {
        let (mut asked, mut found) = (self.asked(start, end, Direction::Backward).await?, Vec::new());
        while found.len() < max
            && let Some(head) = asked.next().await?
        {
            if is_version(&head) && is_shown(&head) && (start..end).contains(&head.revision) {
                found.push(head);
            }
        }
        Ok(found)
    }

    async fn newest_kept(&self, revisions: Range<RevisionId>, max: usize, is_shown: Shown) -> ObjectsResult<Vec<Head>> {
        let log = self.heads.log_before(&self.object, &self.row.head);
        let mut entries = log.newest_first_below(revisions.end).await?;
        let mut current = Some(self.row.head.clone()).filter(|head| head.revision < revisions.end);
        let (mut found, mut versions, mut hidden) = (Vec::new(), 0, 0);
        // The oldest head that was read since the last version: the one that ended its incarnation.
        let mut end: Option<Head> = None;
        while versions < max {
            let next = match current.take() {
                Some(head) => Some(head),
                None => entries.next_head().await?,
            };
            let Some(head) = next.filter(|head| head.revision >= revisions.start) else { break };
            if !is_version(&head) {
                end = Some(head);
            } else if !is_shown(&head) {
                hidden += 1;
                if hidden > HIDDEN_MAX {
                    // All versions of an incarnation are of one kind.
                    entries = log.newest_first_below(head.incarnation).await?;
                    hidden = 0;
                }
            } else if self.is_listed(&head).await? {
                found.extend(end.take().filter(|end| end.incarnation == head.incarnation));
                found.push(head);
                versions += 1;
                hidden = 0;
            }
        }
        Ok(found)
    }
}

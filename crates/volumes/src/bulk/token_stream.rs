//! Streams token counts, made while they are sent: a ZIP with one entry per volume or page, or rows
//! in a form of the caller's.

use std::sync::Arc;

use audit::{AuditAction, Requester};
use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use pack::{FrameError, PageMember, Pass, Source, ZipEntry, ZipEntryError, ZipWriter};

use super::errors::{Missing, MissingPart, MissingReason};
use super::planned::BulkPlan;
use super::request::{BulkRequest, OnDamage};
use super::source::PlanSource;
use super::token_counts::{TokenCount, TokenCounter, TokenOrder, Tokenization};
use super::trail::Windows;
use crate::bulk::fairness::BulkStream;
use crate::handle::Volumes;

/// The most entries of a response: the central directory is held in memory, about 100 bytes per
/// entry.
const ENTRIES_MAX: u64 = 500_000;

/// Pages that are counted in one job.
const PAGES_AT_ONCE: u32 = 256;

/// Rows about what is known to be missing that are made at once.
const KNOWN_AT_ONCE: usize = 64;

/// A request for token counts.
#[derive(Clone, Debug)]
pub struct TokenRequest {
    /// The volumes, each once, in the order of the response.
    pub volumes: Vec<VolumeId>,
    /// One count per volume or one per page.
    pub level: TokenLevel,
    /// The order in which tokens are listed.
    pub order: TokenOrder,
    /// What a token is.
    pub tokenization: Tokenization,
    /// The form of rows; `None` for a ZIP.
    pub rows: Option<Arc<dyn TokenRows>>,
    /// The state that is requested, as in [`BulkRequest::as_of`].
    pub as_of: Option<RevisionId>,
}

/// A form of counts other than a ZIP.
pub trait TokenRows: std::fmt::Debug + Send + Sync {
    /// What is before the first row.
    fn begin(&self) -> Vec<u8>;
    /// The rows of a volume, or of the page with a sequence.
    fn counts(&self, volume: &VolumeId, seq: Option<u32>, counts: &[TokenCount]) -> Vec<u8>;
    /// A row about what is missing or damaged, in place of its counts.
    fn missing(&self, missing: &Missing) -> Vec<u8>;
    /// What is behind the last row.
    fn end(&self) -> Vec<u8>;
}

/// The unit of a count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TokenLevel {
    /// A volume: `<cleaned id>.count`.
    #[default]
    Volume,
    /// A page: `<cleaned id>/<sequence>.count`.
    Page,
}

impl Volumes {
    /// Counts tokens and streams the counts. The last entry of a ZIP, `ERROR.err`, lists what is
    /// missing or damaged; rows say so in its place. Incomplete counts are left out: that of a
    /// volume if one of its pages cannot be read.
    ///
    /// Audited and refused like [`Volumes::stream`]; fails with [`ObjectsError::OverLimit`] for
    /// more than 500,000 counts.
    pub async fn token_counts(&self, request: TokenRequest, requester: Requester) -> ObjectsResult<BulkStream> {
        let turn = self.planning(request.volumes.len() as u64, requester.party()).await?;
        let bulk = BulkRequest { as_of: request.as_of, ..BulkRequest::volumes(request.volumes) };
        let plan = turn.plan(&bulk, OnDamage::Report).await?;
        drop(turn);
        let in_zip = request.rows.is_none();
        if in_zip && request.level == TokenLevel::Page && plan.entries > ENTRIES_MAX {
            return Err(ObjectsError::OverLimit(format!("{} counts, at most {ENTRIES_MAX} at once", plan.entries)));
        }
        let admission = self.admit_bulk(&plan, &requester).await?;
        let windows = Windows { sent: 0..plan.archive.groups.len(), first: 1 };
        let action = AuditAction::TokenCountAccessed;
        let source = PlanSource::for_stream(self.clone(), &plan, requester, action, windows);
        let counting = Counting {
            groups: plan.archive.groups.len(),
            errors: plan.archive.errors.clone(),
            source: Arc::new(source),
            level: request.level,
            order: request.order,
            tokenization: request.tokenization,
            out: Some(match request.rows {
                None => Out::Zip(ZipWriter::new()),
                Some(rows) => Out::Rows { text: rows.begin(), rows },
            }),
            plan,
            known: 0,
            group: 0,
            page: 0,
            counter: TokenCounter::new(request.tokenization),
        };
        Ok(admission.run_ahead(futures::stream::try_unfold(counting, Counting::next)))
    }
}

/// What is missing before anything is counted, from the place `at` on, and the place behind it. Of
/// a volume that is counted as a whole, one part says it.
fn known(missing: &[Missing], at: usize, level: TokenLevel) -> Option<(Missing, usize)> {
    let first = missing.get(at)?;
    if level == TokenLevel::Page {
        return Some((first.clone(), at + 1));
    }
    let of_volume = missing[at..].iter().take_while(|missing| missing.volume == first.volume).count();
    Some((Missing { part: MissingPart::Volume, ..first.clone() }, at + of_volume))
}

/// The progress of counting.
struct Counting {
    source: Arc<PlanSource>,
    /// It has its shares of memory as long as counts are made.
    plan: Arc<BulkPlan>,
    /// How much of what the plan lacks has its rows.
    known: usize,
    groups: usize,
    errors: Option<Bytes>,
    level: TokenLevel,
    order: TokenOrder,
    tokenization: Tokenization,
    /// `None` once it is finished.
    out: Option<Out>,
    group: usize,
    page: u32,
    /// The counts of the volume so far; unused where pages are counted.
    counter: TokenCounter,
}

/// What is sent.
enum Out {
    Zip(ZipWriter),
    Rows { rows: Arc<dyn TokenRows>, text: Vec<u8> },
}

impl Out {
    fn add(&mut self, piece: Piece) {
        match (self, piece) {
            (Self::Zip(zip), Piece::Entry(entry)) => zip.add(&entry),
            (Self::Rows { text, .. }, Piece::Rows(rows)) => text.extend(rows),
            // Pieces are made in the form of what is sent.
            _ => {}
        }
    }

    fn take(&mut self) -> Bytes {
        match self {
            Self::Zip(zip) => zip.take(),
            Self::Rows { text, .. } => std::mem::take(text).into(),
        }
    }

    /// How pieces of it are made.
    fn form(&self) -> Form {
        match self {
            Self::Zip(_) => Form(None),
            Self::Rows { rows, .. } => Form(Some(rows.clone())),
        }
    }
}

/// The counts of a volume or a page, as they are sent.
enum Piece {
    Entry(ZipEntry),
    Rows(Vec<u8>),
}

impl Piece {
    /// Its bytes.
    fn len(&self) -> usize {
        match self {
            Self::Entry(entry) => entry.len_bytes(),
            Self::Rows(rows) => rows.len(),
        }
    }
}

/// How counts become pieces.
struct Form(Option<Arc<dyn TokenRows>>);

impl Form {
    fn piece(&self, id: &VolumeId, seq: Option<u32>, counter: TokenCounter, order: TokenOrder) -> ObjectsResult<Piece> {
        let Some(rows) = &self.0 else {
            let name = match seq {
                None => format!("{}.count", id.cleaned()),
                Some(seq) => format!("{}/{seq:08}.count", id.cleaned()),
            };
            let entry = ZipEntry::deflated(name, counter.finish(order)?.as_bytes()).map_err(not_an_entry)?;
            return Ok(Piece::Entry(entry));
        };
        Ok(Piece::Rows(rows.counts(id, seq, &counter.counts(order)?)))
    }
}

/// The result of counting some pages of a volume.
struct Counted {
    counter: TokenCounter,
    pieces: Vec<Piece>,
    /// The number of pages counted.
    pages: u32,
    /// The damage of the page after them.
    damage: Option<FrameError>,
}

impl Counting {
    /// Returns the next bytes and the progress after them.
    async fn next(mut self) -> ObjectsResult<Option<(Bytes, Self)>> {
        if let Some(ready) = self.rows_of_known() {
            return Ok(Some((ready, self)));
        }
        while self.out.is_some() && self.group < self.groups {
            self.advance().await?;
            let ready = self.out.as_mut().map(Out::take).unwrap_or_default();
            if !ready.is_empty() {
                return Ok(Some((ready, self)));
            }
        }
        let Some(out) = self.out.take() else { return Ok(None) };
        self.source.mark_noticed().await;
        let mut zip = match out {
            Out::Zip(zip) => zip,
            Out::Rows { rows, mut text } => {
                text.extend(rows.end());
                return Ok(Some((text.into(), self)));
            }
        };
        if let Some(errors) = self.source.errors_with_left_out().or(self.errors.take()) {
            zip.add(&ZipEntry::deflated("ERROR.err", &errors).map_err(not_an_entry)?);
        }
        Ok(Some((zip.finish(), self)))
    }

    /// The next rows about what the plan lacks, before all others.
    fn rows_of_known(&mut self) -> Option<Bytes> {
        let Some(Out::Rows { rows, text }) = &mut self.out else { return None };
        let before = self.known;
        for _ in 0..KNOWN_AT_ONCE {
            let Some((missing, next)) = known(&self.plan.missing, self.known, self.level) else { break };
            text.extend(rows.missing(&missing));
            self.known = next;
        }
        (self.known > before).then(|| std::mem::take(text).into())
    }

    /// Counts some pages, or finishes a volume.
    async fn advance(&mut self) -> ObjectsResult<()> {
        if self.level == TokenLevel::Volume && self.source.is_partial(self.group) {
            // Its row is among the first.
            self.source.leave_out(self.group, MissingPart::Volume, MissingReason::Damaged);
            self.next_volume();
            return Ok(());
        }
        if self.page == 0 {
            self.source.before_group(self.group).await?;
        }
        if self.page == self.source.page_count(self.group) {
            return self.end_volume().await;
        }
        match self.count_some().await {
            Err(error) if error.is_damage() => self.leave_out(MissingReason::Damaged),
            counted => counted,
        }
    }

    async fn count_some(&mut self) -> ObjectsResult<()> {
        let end = self.source.page_count(self.group).min(self.page + PAGES_AT_ONCE);
        let members = self.source.members(Pass::Contents, self.group, self.page..end).await?;
        let piece_bytes = self.source.piece_bytes();
        let frames = self.source.frames(self.group, self.page..end, piece_bytes).await?;
        let counter = std::mem::take(&mut self.counter);
        let (level, order, tokenization) = (self.level, self.order, self.tokenization);
        let (id, form) = (self.source.volume_id(self.group)?, self.form());
        let counted = self.source.count(move || match level {
            TokenLevel::Volume => count_volume(counter, &members, &frames),
            TokenLevel::Page => count_pages(&id, &form, (order, tokenization), &members, &frames, piece_bytes),
        });
        let counted = counted.await??;
        self.counter = counted.counter;
        self.page += counted.pages;
        counted.pieces.into_iter().for_each(|piece| self.add(piece));
        if let Some(damage) = counted.damage {
            self.source.notice(self.group, Some(self.page), &damage);
            self.leave_out(MissingReason::Damaged)?;
        }
        Ok(())
    }

    fn form(&self) -> Form {
        self.out.as_ref().map_or(Form(None), Out::form)
    }

    async fn end_volume(&mut self) -> ObjectsResult<()> {
        if self.level == TokenLevel::Volume {
            let counter = std::mem::take(&mut self.counter);
            let (order, id, form) = (self.order, self.source.volume_id(self.group)?, self.form());
            let piece = self.source.count(move || form.piece(&id, None, counter, order)).await??;
            self.add(piece);
        }
        self.next_volume();
        Ok(())
    }

    /// Skips what cannot be read: the page, or the volume if volumes are counted.
    fn leave_out(&mut self, reason: MissingReason) -> ObjectsResult<()> {
        let part = match self.level {
            TokenLevel::Volume => MissingPart::Volume,
            TokenLevel::Page => MissingPart::Page(self.source.seq(self.group, self.page)),
        };
        self.source.leave_out(self.group, part, reason);
        if let Some(Out::Rows { rows, text }) = &mut self.out {
            text.extend(rows.missing(&Missing { volume: self.source.volume_id(self.group)?, part, reason }));
        }
        match self.level {
            TokenLevel::Volume => self.next_volume(),
            TokenLevel::Page => self.page += 1,
        }
        Ok(())
    }

    fn next_volume(&mut self) {
        self.counter = TokenCounter::new(self.tokenization);
        self.group += 1;
        self.page = 0;
    }

    fn add(&mut self, piece: Piece) {
        if let Some(out) = &mut self.out {
            out.add(piece);
        }
    }
}

fn count_volume(counter: TokenCounter, members: &[PageMember], frames: &[Bytes]) -> ObjectsResult<Counted> {
    let mut counted = Counted { counter, pieces: Vec::new(), pages: 0, damage: None };
    for (page, frame) in members.iter().zip(frames) {
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(text) => counted.counter.add_page(&text)?,
            Err(error) => {
                counted.damage = Some(error);
                break;
            }
        }
        counted.pages += 1;
    }
    Ok(counted)
}

/// Counts pages, until what is sent of them has `max_bytes`.
fn count_pages(
    id: &VolumeId,
    form: &Form,
    (order, tokenization): (TokenOrder, Tokenization),
    members: &[PageMember],
    frames: &[Bytes],
    max_bytes: usize,
) -> ObjectsResult<Counted> {
    let mut pieces = Vec::with_capacity(frames.len());
    let (mut damage, mut bytes) = (None, 0);
    for (page, frame) in members.iter().zip(frames) {
        if bytes >= max_bytes {
            break;
        }
        match pack::inflate(frame, page.member.size, page.member.crc32) {
            Ok(text) => {
                let mut counter = TokenCounter::new(tokenization);
                counter.add_page(&text)?;
                let piece = form.piece(id, Some(page.seq), counter, order)?;
                bytes += piece.len();
                pieces.push(piece);
            }
            Err(error) => {
                damage = Some(error);
                break;
            }
        }
    }
    let pages = u32::try_from(pieces.len()).unwrap_or(u32::MAX);
    Ok(Counted { counter: TokenCounter::new(tokenization), pieces, pages, damage })
}

fn not_an_entry(error: ZipEntryError) -> ObjectsError {
    ObjectsError::OverLimit(format!("a count cannot be an entry of a ZIP: {error}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_volume_that_is_counted_as_a_whole_is_missing_once() {
        let missing =
            |id: &str, part| Missing { volume: VolumeId::parse(id).unwrap(), part, reason: MissingReason::Damaged };
        let (one, two) = (MissingPart::Page(1), MissingPart::Page(2));
        let all = [missing("a.a", one), missing("a.a", two), missing("a.b", one)];
        let whole = MissingPart::Volume;
        let known = |level| {
            let mut at = 0;
            let next = || {
                let (missing, next) = super::known(&all, at, level)?;
                at = next;
                Some(missing)
            };
            std::iter::from_fn(next).collect::<Vec<_>>()
        };
        assert_eq!(known(TokenLevel::Volume), [missing("a.a", whole), missing("a.b", whole)]);
        assert_eq!(known(TokenLevel::Page), all);
    }
}

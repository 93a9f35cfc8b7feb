//! Streams token counts, made while they are sent: a ZIP with one entry per volume or page, or rows
//! in a form of the caller's.
//!
//! What is kept while the client reads has a share of memory: the central directory, the counts of
//! the present volume and what is made and not sent yet. What a job takes while it counts has none,
//! but there are only as many jobs as turns at counting.

use std::collections::VecDeque;
use std::sync::Arc;
use store::boxed;

use audit::{AuditAction, Requester};
use budget::Share;
use bytes::Bytes;
use hathi::VolumeId;
use heads::error::{ObjectsError, ObjectsResult};
use heads::revision::RevisionId;
use pack::{Archive, FrameError, Group, PageMember, Pass, Source, ZipEntry, ZipEntryError, ZipWriter};

use super::errors::{Missing, MissingPart, MissingReason};
use super::planned::BulkPlan;
use super::request::{BulkRequest, OnDamage};
use super::source::PlanSource;
use super::token_counts::{TokenCount, TokenCounter, TokenOrder, Tokenization};
use super::trail::Windows;
use crate::bulk::fairness::BulkStream;
use crate::handle::Volumes;

/// The most counts of pages in a ZIP: the central directory is held in memory, about 100 bytes per
/// entry.
const ENTRIES_MAX: u64 = 500_000;

/// Pages that are counted in one job.
const PAGES_AT_ONCE: u32 = 256;

/// Rows about what is known to be missing that are made at once.
const KNOWN_AT_ONCE: usize = 64;

/// Rows of counts that are made at once. Each has the id of its volume.
const ROWS_AT_ONCE: usize = 64;

/// The entry that lists what is missing.
const ERRORS_NAME: &str = "ERROR.err";

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
    /// Rows of a volume, or of the page with a sequence: of its next counts.
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
    /// Audited and refused like [`Volumes::stream`]; fails with [`ObjectsError::OverLimit`] for a
    /// ZIP of more than 500,000 counts of pages, and with [`ObjectsError::Overloaded`] if there is
    /// no memory for its directory. The stream ends with that error if there is none for its
    /// counts.
    #[boxed]
    pub async fn token_counts(&self, request: TokenRequest, requester: Requester) -> ObjectsResult<BulkStream> {
        let turn = self.planning(request.volumes.len() as u64, requester.party()).await?;
        let bulk = BulkRequest { as_of: request.as_of, ..BulkRequest::volumes(request.volumes) };
        let plan = turn.plan(&bulk, OnDamage::Report).await?;
        drop(turn);
        let in_zip = request.rows.is_none();
        if in_zip && request.level == TokenLevel::Page {
            let counts = page_counts(&plan.archive);
            if counts > ENTRIES_MAX {
                return Err(ObjectsError::OverLimit(format!("{counts} counts, at most {ENTRIES_MAX} at once")));
            }
        }
        let directory_bytes = if in_zip { directory_bytes(&plan.archive, request.level) } else { 0 };
        let share = self.inner.memory.try_reserve(&requester.party(), directory_bytes as u64)?;
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
                None => Out::Zip { zip: ZipWriter::new(directory_bytes), directory_bytes },
                Some(rows) => Out::Rows { text: rows.begin(), rows },
            }),
            plan,
            share,
            known: 0,
            group: 0,
            page: 0,
            counter: TokenCounter::new(request.tokenization),
            listed: VecDeque::new(),
            ready: VecDeque::new(),
        };
        Ok(admission.run_ahead(futures::stream::try_unfold(counting, Counting::next)))
    }
}

/// The number of counts of an archive's pages. The archive itself also has folders.
fn page_counts(archive: &Archive) -> u64 {
    archive.groups.iter().map(|group| group.pages.sums().count).sum()
}

/// The most bytes of the central directory of a ZIP with the counts of an archive.
fn directory_bytes(archive: &Archive, level: TokenLevel) -> usize {
    let of_group = |group: &Group| {
        let (counts, name_end) = match level {
            TokenLevel::Volume => (1, ".count"),
            TokenLevel::Page => (group.pages.sums().count as usize, "/00000001.count"),
        };
        counts * (ZipWriter::ENTRY_BYTES_MAX + group.name.len() + name_end.len())
    };
    let of_errors = ZipWriter::ENTRY_BYTES_MAX + ERRORS_NAME.len();
    archive.groups.iter().map(of_group).sum::<usize>() + of_errors
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
    /// The share of what is kept while the client reads.
    share: Share,
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
    /// Finished counts of which rows are still to be made.
    listed: VecDeque<Listed>,
    /// What is made and not sent yet, each with how many of its bytes were sent.
    ready: VecDeque<(Bytes, usize)>,
}

/// What is sent.
enum Out {
    Zip { zip: ZipWriter, directory_bytes: usize },
    Rows { rows: Arc<dyn TokenRows>, text: Vec<u8> },
}

impl Out {
    fn take(&mut self) -> Bytes {
        match self {
            Self::Zip { zip, .. } => zip.take(),
            Self::Rows { text, .. } => std::mem::take(text).into(),
        }
    }

    /// What it keeps after all bytes were taken.
    fn kept_bytes(&self) -> usize {
        match self {
            Self::Zip { directory_bytes, .. } => *directory_bytes,
            Self::Rows { .. } => 0,
        }
    }

    /// What is made for it of counts.
    fn form(&self) -> Form {
        match self {
            Self::Zip { .. } => Form::Entries,
            Self::Rows { .. } => Form::Rows,
        }
    }
}

/// The finished counts of a volume or a page.
enum Piece {
    Entry(ZipEntry),
    Listed(Listed),
}

impl Piece {
    /// Its bytes in memory.
    fn len(&self) -> usize {
        match self {
            Self::Entry(entry) => entry.len_bytes(),
            Self::Listed(listed) => listed.bytes,
        }
    }
}

/// The finished counts of a volume or a page that become rows.
struct Listed {
    id: VolumeId,
    seq: Option<u32>,
    counts: Vec<TokenCount>,
    /// The number of counts that have their rows.
    at: usize,
    /// The memory of the counts.
    bytes: usize,
}

/// Makes the next rows, until they have `max_bytes`. Counts whose rows are all made are removed.
fn next_rows(rows: &dyn TokenRows, listed: &mut VecDeque<Listed>, max_bytes: usize) -> Vec<u8> {
    let mut text = Vec::new();
    while text.len() < max_bytes {
        let Some(first) = listed.front_mut() else { break };
        let end = first.counts.len().min(first.at + ROWS_AT_ONCE);
        text.extend(rows.counts(&first.id, first.seq, &first.counts[first.at..end]));
        first.at = end;
        if end == first.counts.len() {
            listed.pop_front();
        }
    }
    text
}

/// What is made of counts.
#[derive(Clone, Copy)]
enum Form {
    /// Entries of a ZIP.
    Entries,
    /// Rows.
    Rows,
}

impl Form {
    fn piece(self, id: &VolumeId, seq: Option<u32>, counter: TokenCounter, order: TokenOrder) -> ObjectsResult<Piece> {
        match self {
            Self::Entries => {
                let name = match seq {
                    None => format!("{}.count", id.cleaned()),
                    Some(seq) => format!("{}/{seq:08}.count", id.cleaned()),
                };
                let entry = ZipEntry::deflated(name, counter.finish(order)?.as_bytes()).map_err(not_an_entry)?;
                Ok(Piece::Entry(entry))
            }
            Self::Rows => {
                let bytes = counter.memory_bytes();
                let counts = counter.counts(order)?;
                Ok(Piece::Listed(Listed { id: id.clone(), seq, counts, at: 0, bytes }))
            }
        }
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
        loop {
            if let Some(piece) = self.piece() {
                return Ok(Some((piece, self)));
            }
            if self.out.is_none() {
                return Ok(None);
            }
            self.make_some().await?;
            let made = self.out.as_mut().map(Out::take).unwrap_or_default();
            self.send(made);
            self.hold()?;
        }
    }

    /// The next bytes to send. They are a copy if they are a part of what was made: a piece that
    /// waits for its client holds no more than itself.
    fn piece(&mut self) -> Option<Bytes> {
        let max_bytes = self.source.piece_bytes();
        let (made, sent) = self.ready.front_mut()?;
        let end = made.len().min(*sent + max_bytes);
        let is_all = *sent == 0 && end == made.len();
        let piece = if is_all { made.clone() } else { Bytes::copy_from_slice(&made[*sent..end]) };
        *sent = end;
        if end == made.len() {
            self.ready.pop_front();
        }
        Some(piece)
    }

    fn send(&mut self, made: Bytes) {
        if !made.is_empty() {
            self.ready.push_back((made, 0));
        }
    }

    /// Makes the share as large as what is kept now.
    fn hold(&mut self) -> ObjectsResult<()> {
        let listed: usize = self.listed.iter().map(|listed| listed.bytes).sum();
        let ready: usize = self.ready.iter().map(|(made, _)| made.len()).sum();
        let kept = self.out.as_ref().map_or(0, Out::kept_bytes);
        Ok(self.share.resize((kept + self.counter.memory_bytes() + listed + ready) as u64)?)
    }

    /// Makes some more of what is sent.
    async fn make_some(&mut self) -> ObjectsResult<()> {
        if self.add_known() {
            return Ok(());
        }
        if !self.listed.is_empty() {
            return self.add_listed().await;
        }
        if self.group < self.groups {
            return self.advance().await;
        }
        self.finish().await
    }

    /// Makes what is behind all counts.
    async fn finish(&mut self) -> ObjectsResult<()> {
        let Some(out) = self.out.take() else { return Ok(()) };
        self.source.mark_noticed().await;
        match out {
            Out::Rows { rows, mut text } => {
                text.extend(rows.end());
                self.send(text.into());
            }
            Out::Zip { mut zip, .. } => {
                if let Some(errors) = self.source.errors_with_left_out().or(self.errors.take()) {
                    zip.add(&ZipEntry::deflated(ERRORS_NAME, &errors).map_err(not_an_entry)?);
                }
                zip.finish().into_iter().for_each(|made| self.send(made));
            }
        }
        Ok(())
    }

    /// Adds the next rows about what the plan lacks, before all others. Returns whether there were
    /// some.
    fn add_known(&mut self) -> bool {
        let Some(Out::Rows { rows, text }) = &mut self.out else { return false };
        let before = self.known;
        for _ in 0..KNOWN_AT_ONCE {
            let Some((missing, next)) = known(&self.plan.missing, self.known, self.level) else { break };
            text.extend(rows.missing(&missing));
            self.known = next;
        }
        self.known > before
    }

    /// Adds the next rows of finished counts.
    async fn add_listed(&mut self) -> ObjectsResult<()> {
        let mut listed = std::mem::take(&mut self.listed);
        let Some(Out::Rows { rows, .. }) = &self.out else { return Ok(()) };
        let (rows, max_bytes) = (rows.clone(), self.source.piece_bytes());
        let making = self.source.count(move || {
            let made = next_rows(&*rows, &mut listed, max_bytes);
            (made, listed)
        });
        let (made, listed) = making.await?;
        self.listed = listed;
        if let Some(Out::Rows { text, .. }) = &mut self.out {
            text.extend(made);
        }
        Ok(())
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
            TokenLevel::Page => count_pages(&id, form, (order, tokenization), &members, &frames, piece_bytes),
        });
        let counted = counted.await??;
        self.counter = counted.counter;
        self.page += counted.pages;
        counted.pieces.into_iter().for_each(|piece| self.add(piece));
        // What is listed has its rows first. Then the damaged page is read again.
        if let Some(damage) = counted.damage.filter(|_| self.listed.is_empty()) {
            self.source.notice(self.group, Some(self.page), &damage);
            self.leave_out(MissingReason::Damaged)?;
        }
        Ok(())
    }

    fn form(&self) -> Form {
        self.out.as_ref().map_or(Form::Entries, Out::form)
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
        match piece {
            Piece::Listed(listed) => self.listed.push_back(listed),
            Piece::Entry(entry) => {
                if let Some(Out::Zip { zip, .. }) = &mut self.out {
                    zip.add(&entry);
                }
            }
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
    form: Form,
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
    use pack::{GroupPages, Layout, Level, Sums};

    use super::*;

    #[test]
    fn each_page_is_a_count_and_the_directory_has_room_for_all_of_them() {
        let group = |name: &str| {
            let pages = GroupPages::All { sums: Sums { count: 300, ..Sums::default() }, crc32: 0 };
            Group { name: name.into(), pages, mets: None }
        };
        let groups = vec![group("a.b"), group("a.longer")];
        let (layout, level) = (Layout::Pages, Level::Frames);
        let archive = Archive { layout, level, groups, errors: None, descriptors: true };
        assert_eq!(page_counts(&archive), 600);
        assert!(archive.entry_count() > 600, "it has folders too");
        let levels = [(TokenLevel::Volume, 1, ".count"), (TokenLevel::Page, 300, "/00000001.count")];
        for (level, counts, name_end) in levels {
            let room = directory_bytes(&archive, level);
            let mut zip = ZipWriter::new(room);
            for group in &archive.groups {
                let name = format!("{}{name_end}", group.name);
                (0..counts).for_each(|_| zip.add(&ZipEntry::deflated(name.clone(), b"").unwrap()));
            }
            zip.add(&ZipEntry::deflated(ERRORS_NAME, b"").unwrap());
            let [_, directory, _] = zip.finish();
            assert!(directory.len() <= room, "{} of {room}", directory.len());
        }
    }

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

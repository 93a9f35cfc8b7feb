//! Archives whose length is not known beforehand: entries with data descriptors, always from the first byte to the last.
//!
//! These are recompressed archives, and report mode, in which a page that cannot be read is left out. 24 bytes an entry
//! are kept for the central directory.

use crate::encode::{self, Encoding, Input, Joiner, Output};
use crate::entry::{End, Entry, Sink, Sizes};
use crate::exact::put_errors;
use crate::frame::FRAME_END;
use crate::map::{text_entry, wordseq_entry};
use crate::names::{self, PageNames};
use crate::out::Out;
use crate::reader::{PageRuns, Reader, page_count};
use crate::source::{ArchiveError, Source};
use crate::spec::LIMIT32;
use crate::{FrameError, Group, Layout, Level, Member, crc32_combine};
use bytes::Bytes;
use std::collections::VecDeque;

/// What the central directory will say about an entry.
struct Kept {
    size: u64,
    compressed: u64,
    crc32: u32,
    /// Number of the page; [`Kept::METS`] or [`Kept::TEXT`] for the others.
    seq: u32,
}

impl Kept {
    /// Of a group's METS document; no page has this number.
    const METS: u32 = u32::MAX;
    /// Of all pages of a group, or of the archive.
    const TEXT: u32 = u32::MAX - 1;

    fn entry(&self, utf8: bool, zip64: bool) -> Entry {
        let sizes = Sizes::Described { zip64 };
        Entry { directory: false, utf8, size: self.size, compressed: self.compressed, crc32: self.crc32, sizes }
    }
}

/// Produces a whole archive.
pub(crate) struct Described<S> {
    reader: Reader<S>,
    out: Out<S>,
    kept: Vec<Kept>,
    /// How many entries are kept up to the end of each group.
    kept_to: Vec<usize>,
    /// Batches of entries that are being encoded, in order.
    pipeline: VecDeque<Batch>,
}

/// Entries that follow one another in [`Layout::Pages`].
struct Batch {
    group: usize,
    kind: BatchKind,
}

enum BatchKind {
    /// The directory entry of the group.
    Directory,
    /// Members with what they are encoded as.
    Members { members: Vec<(u32, Member)>, encoded: Encoding },
    /// Nothing more of this group.
    End,
}

/// The text entry that is being written.
struct Joined {
    joiner: Joiner,
    kept: Kept,
}

impl<S: Source> Described<S> {
    pub(crate) fn new(reader: Reader<S>, out: Out<S>) -> Self {
        Self { reader, out, kept: Vec::new(), kept_to: Vec::new(), pipeline: VecDeque::new() }
    }

    /// Produces everything, in the order of the archive.
    pub(crate) async fn run(mut self) -> Result<(), ArchiveError<S::Error>> {
        match self.reader.archive.layout {
            Layout::Pages => self.pages_apart().await?,
            Layout::Volumes => self.volumes().await?,
            Layout::WordSeq => self.wordseq().await?,
        }
        let errors = if self.reader.archive.descriptors { self.reader.source.late_errors() } else { None };
        let errors = errors.or_else(|| self.reader.archive.errors.clone());
        let errors_at = self.out.position();
        if let Some(text) = &errors {
            put_errors(&mut self.out, text);
        }
        self.central(errors.as_ref(), errors_at).await?;
        self.out.finish().await
    }

    fn group(&self, index: usize) -> &Group {
        &self.reader.archive.groups[index]
    }

    fn utf8(&self, index: usize) -> bool {
        !self.group(index).name.is_ascii()
    }

    async fn before_group(&mut self, index: usize) -> Result<u32, ArchiveError<S::Error>> {
        let count = page_count(&self.reader.archive, index)?;
        self.reader.source.before_group(index).await.map_err(ArchiveError::Source)?;
        Ok(count)
    }

    /// [`Layout::Pages`]: reading runs ahead of writing by twice as many batches as the pool has places.
    async fn pages_apart(&mut self) -> Result<(), ArchiveError<S::Error>> {
        for index in 0..self.reader.archive.groups.len() {
            let count = self.before_group(index).await?;
            self.push(Batch { group: index, kind: BatchKind::Directory }).await?;
            let mut pages = PageRuns::new(index, count);
            let (mut members, mut inputs) = (Vec::new(), Vec::new());
            while let Some(run) = pages.next(&self.reader).await? {
                self.push_members(index, std::mem::take(&mut members), std::mem::take(&mut inputs)).await?;
                members = run.iter().map(|(_, page, _)| (page.seq, page.member)).collect();
                inputs = run.into_iter().map(|(page, member, frame)| (Some(page), member.member, frame)).collect();
            }
            // By itself it would be a batch that takes a place of the pool for next to nothing.
            if let Some((mets, frame)) = self.mets(index).await? {
                members.push((Kept::METS, mets));
                inputs.push((None, mets, frame));
            }
            self.push_members(index, members, inputs).await?;
            self.push(Batch { group: index, kind: BatchKind::End }).await?;
        }
        while !self.pipeline.is_empty() {
            self.write_batch().await?;
        }
        Ok(())
    }

    async fn push_members(
        &mut self,
        group: usize,
        members: Vec<(u32, Member)>,
        inputs: Vec<Input>,
    ) -> Result<(), ArchiveError<S::Error>> {
        if members.is_empty() {
            return Ok(());
        }
        let level = self.reader.archive.level;
        let encoded = Encoding::start(level, inputs);
        self.push(Batch { group, kind: BatchKind::Members { members, encoded } }).await
    }

    async fn push(&mut self, batch: Batch) -> Result<(), ArchiveError<S::Error>> {
        self.pipeline.push_back(batch);
        while self.encoding() > encode::AHEAD * encode::parallelism() {
            self.write_batch().await?;
        }
        Ok(())
    }

    /// How many batches of the pipeline the pool has to do with.
    fn encoding(&self) -> usize {
        let members = |batch: &&Batch| matches!(batch.kind, BatchKind::Members { .. });
        self.pipeline.iter().filter(members).count()
    }

    async fn write_batch(&mut self) -> Result<(), ArchiveError<S::Error>> {
        let Some(Batch { group, kind }) = self.pipeline.pop_front() else { return Ok(()) };
        match kind {
            BatchKind::Directory => {
                let name = names::directory(self.group(group));
                Entry::directory(&name).put_local(&mut self.out, &name);
            }
            BatchKind::Members { members, encoded } => {
                let encoded = encoded.finish().await.ok_or(ArchiveError::Interrupted)?;
                let mut names = PageNames::new(self.group(group));
                let mets_name = names::mets(self.reader.archive.layout, self.group(group));
                for ((seq, member), output) in members.into_iter().zip(encoded) {
                    if let Some(content) = self.unless_omitted(group, output)? {
                        let name = if seq == Kept::METS { &mets_name } else { names.of(seq) };
                        self.member_entry(group, name, seq, &member, &content);
                    }
                }
            }
            BatchKind::End => self.kept_to.push(self.kept.len()),
        }
        self.out.drain().await
    }

    /// The content of an entry, or `None` if it is damaged and left out.
    fn unless_omitted(&self, group: usize, output: Output) -> Result<Option<Bytes>, ArchiveError<S::Error>> {
        let (page, content) = output;
        match content {
            Ok(content) => Ok(Some(content)),
            Err(error) if self.may_omit_damaged(group, page, &error) => Ok(None),
            Err(error) => Err(ArchiveError::Damaged { group: self.group(group).name.clone(), error }),
        }
    }

    fn may_omit_damaged(&self, group: usize, page: Option<u32>, error: &FrameError) -> bool {
        self.reader.source.omit_damaged(group, page, error) && self.reader.archive.descriptors
    }

    /// Appends the entry of one member.
    fn member_entry(&mut self, group: usize, name: &[u8], seq: u32, member: &Member, content: &Bytes) {
        let end: &[u8] = if matches!(self.reader.archive.level, Level::Recompressed(_)) { &[] } else { &FRAME_END };
        let compressed = (content.len() + end.len()) as u64;
        let kept = Kept { size: u64::from(member.size), compressed, crc32: member.crc32, seq };
        let entry = kept.entry(self.utf8(group), false);
        entry.put_local(&mut self.out, name);
        self.out.put_frame(content);
        self.out.put(end);
        entry.put_descriptor(&mut self.out);
        self.kept.push(kept);
    }

    async fn mets(&mut self, index: usize) -> Result<Option<(Member, Bytes)>, ArchiveError<S::Error>> {
        let Some(mets) = names::mets_of(self.reader.archive.layout, self.group(index)) else { return Ok(None) };
        match self.reader.mets_frame(index, &mets).await {
            Ok(frame) => Ok(Some((mets, frame))),
            Err(ArchiveError::Source(error)) if self.may_omit_mets(index, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn may_omit_mets(&self, group: usize, error: &S::Error) -> bool {
        self.reader.archive.descriptors && self.reader.source.omit_mets(group, error)
    }

    /// [`Layout::Volumes`].
    async fn volumes(&mut self) -> Result<(), ArchiveError<S::Error>> {
        for index in 0..self.reader.archive.groups.len() {
            let count = self.before_group(index).await?;
            let name = names::text(self.group(index));
            let planned = text_entry(&self.reader.archive, index);
            let mut joined = self.begin_joined(&planned, &name);
            self.join(index, count, &mut joined).await?;
            self.end_joined(&planned, index, joined).await?;
            if let Some((mets, frame)) = self.mets(index).await? {
                let encoded = Encoding::start(self.reader.archive.level, vec![(None, mets, frame)]).finish().await;
                let name = names::mets(Layout::Volumes, self.group(index));
                for output in encoded.ok_or(ArchiveError::Interrupted)? {
                    if let Some(content) = self.unless_omitted(index, output)? {
                        self.member_entry(index, &name, Kept::METS, &mets, &content);
                    }
                }
                self.out.drain().await?;
            }
            self.kept_to.push(self.kept.len());
        }
        Ok(())
    }

    /// [`Layout::WordSeq`].
    async fn wordseq(&mut self) -> Result<(), ArchiveError<S::Error>> {
        let Some(planned) = wordseq_entry(&self.reader.archive) else { return Ok(()) };
        let mut joined = self.begin_joined(&planned, names::WORDSEQ);
        for index in 0..self.reader.archive.groups.len() {
            let count = self.before_group(index).await?;
            self.join(index, count, &mut joined).await?;
        }
        self.end_joined(&planned, 0, joined).await
    }

    fn begin_joined(&mut self, planned: &Entry, name: &[u8]) -> Joined {
        described(planned).put_local(&mut self.out, name);
        let kept = Kept { size: 0, compressed: 0, crc32: 0, seq: Kept::TEXT };
        Joined { joiner: Joiner::new(self.reader.archive.level), kept }
    }

    /// Appends the pages of a group to the entry.
    async fn join(&mut self, index: usize, count: u32, joined: &mut Joined) -> Result<(), ArchiveError<S::Error>> {
        let mut pages = PageRuns::new(index, count);
        while let Some(run) = pages.next(&self.reader).await? {
            let members: Vec<Member> = run.iter().map(|(_, page, _)| page.member).collect();
            let inputs: Vec<Input> =
                run.into_iter().map(|(page, member, frame)| (Some(page), member.member, frame)).collect();
            // The joiner goes to the pool and comes back; meanwhile another of no use stands in its place.
            let mut joiner = std::mem::replace(&mut joined.joiner, Joiner::Blocks(Level::Frames));
            let done = if self.reader.archive.level == Level::Frames {
                Some((joiner.join(inputs), joiner))
            } else {
                encode::on_pool(move || (joiner.join(inputs), joiner)).await
            };
            let (outputs, joiner) = done.ok_or(ArchiveError::Interrupted)?;
            joined.joiner = joiner;
            for (member, output) in members.iter().zip(outputs) {
                let Some(content) = self.unless_omitted(index, output)? else { continue };
                self.out.put_frame(&content);
                joined.kept.compressed += content.len() as u64;
                joined.kept.size += u64::from(member.size);
                joined.kept.crc32 = crc32_combine(joined.kept.crc32, member.crc32, u64::from(member.size));
            }
            self.out.drain().await?;
        }
        Ok(())
    }

    async fn end_joined(
        &mut self,
        planned: &Entry,
        index: usize,
        mut joined: Joined,
    ) -> Result<(), ArchiveError<S::Error>> {
        let end = joined
            .joiner
            .end()
            .map_err(|error| ArchiveError::Damaged { group: self.group(index).name.clone(), error })?;
        self.out.put(&end);
        joined.kept.compressed += end.len() as u64;
        joined.kept.entry(planned.utf8, planned.size >= LIMIT32).put_descriptor(&mut self.out);
        self.kept.push(joined.kept);
        self.out.drain().await
    }

    /// The central directory, of what has been kept, and the end.
    async fn central(&mut self, errors: Option<&Bytes>, errors_at: u64) -> Result<(), ArchiveError<S::Error>> {
        let central_at = self.out.position();
        let archive = self.reader.archive.clone();
        let (mut at, mut entries) = (0, 0);
        if let (Some(planned), Some(kept)) = (wordseq_entry(&archive), self.kept.first()) {
            kept.entry(false, planned.size >= LIMIT32).put_central(&mut self.out, names::WORDSEQ, at);
            entries += 1;
        }
        let mut from = 0;
        for (index, to) in std::mem::take(&mut self.kept_to).into_iter().enumerate() {
            let group = &archive.groups[index];
            let utf8 = !group.name.is_ascii();
            let mut page_names = PageNames::new(group);
            let (text_name, mets_name) = (names::text(group), names::mets(archive.layout, group));
            if archive.layout == Layout::Pages {
                let name = names::directory(group);
                let entry = Entry::directory(&name);
                entry.put_central(&mut self.out, &name, at);
                at += entry.len(name.len());
                entries += 1;
            }
            let text_zip64 = group.pages.sums().bytes >= LIMIT32;
            for kept in &self.kept[from..to] {
                let (name, zip64) = match kept.seq {
                    Kept::METS => (&mets_name[..], false),
                    Kept::TEXT => (&text_name[..], text_zip64),
                    seq => (page_names.of(seq), false),
                };
                let entry = kept.entry(utf8, zip64);
                entry.put_central(&mut self.out, name, at);
                at += entry.len(name.len());
            }
            entries += (to - from) as u64;
            from = to;
            self.out.drain().await?;
        }
        if let Some(text) = errors {
            names::errors_entry(text).put_central(&mut self.out, names::ERRORS, errors_at);
            entries += 1;
        }
        End { entries, central_at, central_len: self.out.position() - central_at }.put(&mut self.out);
        Ok(())
    }
}

/// The entry as its local header has it.
fn described(planned: &Entry) -> Entry {
    Entry { sizes: Sizes::Described { zip64: planned.size >= LIMIT32 }, ..*planned }
}

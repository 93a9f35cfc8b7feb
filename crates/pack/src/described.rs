//! Archives whose length is not known beforehand: entries with data descriptors, always from the
//! first byte to the last.
//!
//! These are recompressed archives, and archives in report mode, in which a page that cannot be
//! read is left out. The central directory needs 24 bytes of memory per entry.

use crate::encode::{self, Encoding, Form, Input, Output};
use crate::entry::{End, EntryHeader, Sink, Sizes};
use crate::exact::put_errors;
use crate::frame::FRAME_END;
use crate::layout::{GroupNames, PageEntries};
use crate::names;
use crate::out::Out;
use crate::reader::{JOB_TEXT_BYTES, PageRuns, Reader, page_count};
use crate::source::{ArchiveError, Source};
use crate::spec::LIMIT32;
use crate::{FrameError, Group, Level, Member, PageMember, crc32_combine};
use bytes::Bytes;
use std::collections::VecDeque;

/// What the central directory records of an entry.
struct Kept {
    size: u64,
    compressed: u64,
    crc32: u32,
    /// Number of the page; [`Kept::METS`] or [`Kept::TEXT`] for the others.
    seq: u32,
}

impl Kept {
    /// Number of a group's METS document. No page has it.
    const METS: u32 = u32::MAX;
    /// Number of the joined pages of a group, or of the archive.
    const TEXT: u32 = u32::MAX - 1;
    /// A text entry without pages.
    const EMPTY_TEXT: Self = Self { size: 0, compressed: 0, crc32: 0, seq: Self::TEXT };

    fn entry(&self, utf8: bool, zip64: bool) -> EntryHeader {
        let sizes = Sizes::Described { zip64 };
        EntryHeader { directory: false, utf8, size: self.size, compressed: self.compressed, crc32: self.crc32, sizes }
    }
}

/// Produces a whole archive.
pub(crate) struct Described<S> {
    reader: Reader<S>,
    out: Out<S>,
    kept: Vec<Kept>,
    /// Number of entries kept up to the end of each group.
    kept_to: Vec<usize>,
    /// Batches that are being encoded, and what is written between them, in the order of the
    /// archive.
    pipeline: VecDeque<Batch>,
    /// The text entry that is being written.
    text: Kept,
}

/// A part of the archive.
enum Batch {
    /// A directory entry of this name.
    Directory { name: String },
    /// Members of a group that are entries of their own, with their numbers.
    Entries { group: usize, members: Vec<(u32, Member)>, encoded: Encoding },
    /// The local header of a text entry.
    TextBegin { name: String, planned: EntryHeader },
    /// Pages of the text entry, each with its group.
    Text { members: Vec<(usize, Member)>, encoded: Encoding },
    /// The end of the text entry.
    TextEnd { planned: EntryHeader },
    /// The end of a group.
    GroupEnd,
}

impl Batch {
    /// Whether the pool works on it. If so, writing it may have to wait.
    fn is_encoding(&self) -> bool {
        match self {
            Self::Entries { encoded, .. } | Self::Text { encoded, .. } => matches!(encoded, Encoding::Running(_)),
            _ => false,
        }
    }
}

/// Pages of a text entry that form one batch. The lengths of the texts alone decide where batches
/// begin, so an archive has the same bytes each time it is sent.
#[derive(Default)]
struct TextBatch {
    members: Vec<(usize, Member)>,
    inputs: Vec<Input>,
    text_bytes: u64,
}

impl<S: Source> Described<S> {
    pub(crate) fn new(reader: Reader<S>, out: Out<S>) -> Self {
        Self { reader, out, kept: Vec::new(), kept_to: Vec::new(), pipeline: VecDeque::new(), text: Kept::EMPTY_TEXT }
    }

    /// Produces everything, in the order of the archive.
    pub(crate) async fn run(mut self) -> Result<(), ArchiveError<S::Error>> {
        self.groups().await?;
        while !self.pipeline.is_empty() {
            self.write_batch().await?;
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

    async fn groups(&mut self) -> Result<(), ArchiveError<S::Error>> {
        let archive = self.reader.archive.clone();
        let one = archive.one_entry();
        if let Some((name, planned)) = one {
            self.push(Batch::TextBegin { name: name.to_owned(), planned }).await?;
        }
        // Batches span volumes, because a request may name only one page of each of many.
        let mut batch = TextBatch::default();
        for index in 0..archive.groups.len() {
            let count = self.before_group(index).await?;
            match archive.names(index) {
                Some(names) => self.entries(index, count, names).await?,
                None => self.text_of(index, count, &mut batch).await?,
            }
        }
        if let Some((_, planned)) = one {
            self.push_text(batch).await?;
            self.push(Batch::TextEnd { planned }).await?;
        }
        Ok(())
    }

    /// The entries of a group.
    async fn entries(&mut self, index: usize, count: u32, names: GroupNames) -> Result<(), ArchiveError<S::Error>> {
        if let Some(name) = names.directory {
            self.push(Batch::Directory { name }).await?;
        }
        let (mut members, mut inputs) = (Vec::new(), Vec::new());
        match names.pages {
            PageEntries::Apart(_) => {
                let mut pages = PageRuns::new(index, count);
                while let Some(run) = pages.next(&self.reader).await? {
                    self.push_entries(index, std::mem::take(&mut members), std::mem::take(&mut inputs)).await?;
                    members = run.iter().map(|(_, page, _)| (page.seq, page.member)).collect();
                    inputs = run.into_iter().map(|(page, member, frame)| (Some(page), member.member, frame)).collect();
                }
            }
            PageEntries::Joined(name) => {
                let planned = self.reader.archive.joined_entry(index);
                self.push(Batch::TextBegin { name, planned }).await?;
                let mut batch = TextBatch::default();
                self.text_of(index, count, &mut batch).await?;
                self.push_text(batch).await?;
                self.push(Batch::TextEnd { planned }).await?;
            }
        }
        // With the last pages: a batch of its own would take a place of the pool for almost no
        // work.
        if let Some((mets, frame)) = self.mets(index).await? {
            members.push((Kept::METS, mets));
            inputs.push((None, mets, frame));
        }
        self.push_entries(index, members, inputs).await?;
        self.push(Batch::GroupEnd).await
    }

    async fn push_entries(
        &mut self,
        group: usize,
        members: Vec<(u32, Member)>,
        inputs: Vec<Input>,
    ) -> Result<(), ArchiveError<S::Error>> {
        if members.is_empty() {
            return Ok(());
        }
        let encoded = Encoding::start(self.reader.archive.level, Form::Entries, inputs);
        self.push(Batch::Entries { group, members, encoded }).await
    }

    /// Appends a batch. Reading runs ahead of writing until the pool has enough to do.
    async fn push(&mut self, batch: Batch) -> Result<(), ArchiveError<S::Error>> {
        self.pipeline.push_back(batch);
        while self.pipeline.front().is_some_and(|batch| !batch.is_encoding()) || self.encoding() > encode::batches_max()
        {
            self.write_batch().await?;
        }
        Ok(())
    }

    /// How many batches of the pipeline the pool has.
    fn encoding(&self) -> usize {
        self.pipeline.iter().filter(|batch| batch.is_encoding()).count()
    }

    async fn write_batch(&mut self) -> Result<(), ArchiveError<S::Error>> {
        let Some(batch) = self.pipeline.pop_front() else { return Ok(()) };
        match batch {
            Batch::Directory { name } => {
                EntryHeader::directory(name.as_bytes()).put_local(&mut self.out, name.as_bytes());
            }
            Batch::Entries { group, members, encoded } => self.write_entries(group, members, encoded).await?,
            Batch::TextBegin { name, planned } => {
                described(&planned).put_local(&mut self.out, name.as_bytes());
                self.text = Kept::EMPTY_TEXT;
            }
            Batch::Text { members, encoded } => self.write_text(members, encoded).await?,
            Batch::TextEnd { planned } => {
                self.out.put(&FRAME_END);
                self.text.compressed += FRAME_END.len() as u64;
                self.text.entry(planned.utf8, planned.size >= LIMIT32).put_descriptor(&mut self.out);
                self.kept.push(std::mem::replace(&mut self.text, Kept::EMPTY_TEXT));
            }
            Batch::GroupEnd => self.kept_to.push(self.kept.len()),
        }
        self.out.drain().await
    }

    async fn write_entries(
        &mut self,
        group: usize,
        members: Vec<(u32, Member)>,
        encoded: Encoding,
    ) -> Result<(), ArchiveError<S::Error>> {
        let encoded = encoded.finish().await.ok_or(ArchiveError::Interrupted)?;
        let Some(mut names) = self.reader.archive.names(group) else { return Ok(()) };
        for ((seq, member), output) in members.into_iter().zip(encoded) {
            if let Some(content) = self.unless_omitted(group, output)? {
                self.member_entry(group, name_of(&mut names, seq), seq, &member, &content);
            }
        }
        Ok(())
    }

    async fn write_text(
        &mut self,
        members: Vec<(usize, Member)>,
        encoded: Encoding,
    ) -> Result<(), ArchiveError<S::Error>> {
        let encoded = encoded.finish().await.ok_or(ArchiveError::Interrupted)?;
        for ((group, member), output) in members.into_iter().zip(encoded) {
            let Some(content) = self.unless_omitted(group, output)? else { continue };
            self.out.put_frame(&content);
            self.text.compressed += content.len() as u64;
            self.text.size += u64::from(member.size);
            self.text.crc32 = crc32_combine(self.text.crc32, member.crc32, u64::from(member.size));
        }
        Ok(())
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
        let Some(mets) = self.group(index).mets else { return Ok(None) };
        match self.reader.mets_frame(index, &mets).await {
            Ok(frame) => Ok(Some((mets, frame))),
            Err(ArchiveError::Source(error)) if self.may_omit_mets(index, &error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn may_omit_mets(&self, group: usize, error: &S::Error) -> bool {
        self.reader.archive.descriptors && self.reader.source.omit_mets(group, error)
    }

    /// Adds the pages of a group to a batch of the text entry, and to those after it.
    async fn text_of(&mut self, index: usize, count: u32, batch: &mut TextBatch) -> Result<(), ArchiveError<S::Error>> {
        let mut pages = PageRuns::new(index, count);
        while let Some(run) = pages.next(&self.reader).await? {
            for (page, PageMember { member, .. }, frame) in run {
                if batch.text_bytes + u64::from(member.size) > JOB_TEXT_BYTES {
                    self.push_text(std::mem::take(batch)).await?;
                }
                batch.text_bytes += u64::from(member.size);
                batch.members.push((index, member));
                batch.inputs.push((Some(page), member, frame));
            }
        }
        Ok(())
    }

    async fn push_text(&mut self, batch: TextBatch) -> Result<(), ArchiveError<S::Error>> {
        if batch.members.is_empty() {
            return Ok(());
        }
        let encoded = Encoding::start(self.reader.archive.level, Form::Text, batch.inputs);
        self.push(Batch::Text { members: batch.members, encoded }).await
    }

    /// The central directory, from the records kept, and the end.
    async fn central(&mut self, errors: Option<&Bytes>, errors_at: u64) -> Result<(), ArchiveError<S::Error>> {
        let central_at = self.out.position();
        let archive = self.reader.archive.clone();
        let (mut at, mut entries) = (0, 0);
        if let (Some((name, planned)), Some(kept)) = (archive.one_entry(), self.kept.first()) {
            kept.entry(false, planned.size >= LIMIT32).put_central(&mut self.out, name.as_bytes(), at);
            entries += 1;
        }
        let mut from = 0;
        for (index, to) in std::mem::take(&mut self.kept_to).into_iter().enumerate() {
            let Some(mut names) = archive.names(index) else { continue };
            let group = &archive.groups[index];
            let utf8 = !group.name.is_ascii();
            if let Some(name) = &names.directory {
                let entry = EntryHeader::directory(name.as_bytes());
                entry.put_central(&mut self.out, name.as_bytes(), at);
                at += entry.len(name.len());
                entries += 1;
            }
            let text_zip64 = group.pages.sums().bytes >= LIMIT32;
            for kept in &self.kept[from..to] {
                let name = name_of(&mut names, kept.seq);
                let entry = kept.entry(utf8, kept.seq == Kept::TEXT && text_zip64);
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

/// The name of a group's entry with this number.
fn name_of(names: &mut GroupNames, seq: u32) -> &[u8] {
    match &mut names.pages {
        _ if seq == Kept::METS => names.mets.as_bytes(),
        PageEntries::Apart(names) => names.of(seq),
        PageEntries::Joined(name) => name.as_bytes(),
    }
}

/// The entry as its local header has it.
fn described(planned: &EntryHeader) -> EntryHeader {
    EntryHeader { sizes: Sizes::Described { zip64: planned.size >= LIMIT32 }, ..*planned }
}

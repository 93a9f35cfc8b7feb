//! Archives of known length (unchanged frames, or stored blocks): any range of them, without
//! reading more than it needs.
//!
//! Everything is appended in order, and [`Out`] drops what lies outside the window. What lies
//! before the window is skipped by arithmetic, so no frame is read for it.

use crate::encode;
use crate::entry::{EntryHeader, Sink};
use crate::frame::FRAME_END;
use crate::layout::PageEntries;
use crate::map::Map;
use crate::names::{self, PageNames};
use crate::out::Out;
use crate::reader::{Reader, page_count};
use crate::source::{ArchiveError, Pass, Source};
use crate::{Level, PageMember};
use bytes::Bytes;

/// Produces the window of an archive.
pub(crate) struct Exact<S> {
    reader: Reader<S>,
    map: Map,
    out: Out<S>,
}

/// How the pages of a group become bytes.
#[derive(Clone)]
enum Pages {
    /// One entry per page.
    Entries { names: PageNames, utf8: bool },
    /// Joined within an entry.
    Joined,
}

impl Pages {
    /// Length in bytes of a page in the archive.
    fn len(&self, level: Level, page: &PageMember) -> u64 {
        match self {
            Self::Entries { names, utf8 } => names::member_entry(level, *utf8, &page.member).len(names.len()),
            Self::Joined => names::content_len(level, &page.member),
        }
    }

    /// Appends what comes before a page.
    fn begin(&mut self, out: &mut impl Sink, level: Level, page: &PageMember) {
        if let Self::Entries { names, utf8 } = self {
            names::member_entry(level, *utf8, &page.member).put_local(out, names.of(page.seq));
        }
    }

    /// Appends what comes after a page.
    fn end(&self, out: &mut impl Sink) {
        if let Self::Entries { .. } = self {
            out.put(&FRAME_END);
        }
    }
}

impl<S: Source> Exact<S> {
    pub(crate) fn new(reader: Reader<S>, map: Map, out: Out<S>) -> Self {
        Self { reader, map, out }
    }

    fn level(&self) -> Level {
        self.reader.archive.level
    }

    /// Produces everything, in the order of the archive.
    pub(crate) async fn run(mut self) -> Result<(), ArchiveError<S::Error>> {
        self.groups().await?;
        self.errors();
        self.central().await?;
        self.out.seek(self.map.end.central_at + self.map.end.central_len);
        self.map.end.put(&mut self.out);
        self.out.finish().await
    }

    async fn groups(&mut self) -> Result<(), ArchiveError<S::Error>> {
        if let Some((name, entry)) = self.map.one {
            entry.put_local(&mut self.out, name.as_bytes());
        }
        for index in self.first_wanted(&self.map.groups)..self.reader.archive.groups.len() {
            self.out.seek(self.map.groups[index]);
            if self.out.is_past() {
                return Ok(());
            }
            if self.map.groups[index] == self.map.groups[index + 1] {
                continue; // a volume without pages, within the one entry
            }
            self.reader.source.before_group(index).await.map_err(ArchiveError::Source)?;
            self.one_group(index).await?;
            let is_whole = self.out.position() == self.map.groups[index + 1];
            if !is_whole && !self.out.is_past() {
                return Err(self.reader.mismatch(index, "its members do not add up to its sums"));
            }
        }
        if self.map.one.is_some() {
            self.out.seek(self.map.groups[self.reader.archive.groups.len()]);
            self.out.put(&FRAME_END);
        }
        Ok(())
    }

    /// The first group that ends behind the start of the window.
    fn first_wanted(&self, starts: &[u64]) -> usize {
        let ends = &starts[1..];
        ends.partition_point(|&end| end <= self.out.start())
    }

    async fn one_group(&mut self, index: usize) -> Result<(), ArchiveError<S::Error>> {
        let archive = self.reader.archive.clone();
        let Some(names) = archive.names(index) else { return self.pages(index, Pages::Joined).await };
        if let Some(name) = names.directory {
            EntryHeader::directory(name.as_bytes()).put_local(&mut self.out, name.as_bytes());
        }
        match names.pages {
            PageEntries::Apart(names) => {
                let utf8 = !archive.groups[index].name.is_ascii();
                self.pages(index, Pages::Entries { names, utf8 }).await?;
            }
            PageEntries::Joined(name) => {
                archive.joined_entry(index).put_local(&mut self.out, name.as_bytes());
                self.pages(index, Pages::Joined).await?;
                self.out.put(&FRAME_END);
            }
        }
        self.mets(index, names.mets).await
    }

    /// The hot path: for an unchanged frame it writes a header, a copy and two bytes. It awaits
    /// only once per batch.
    async fn pages(&mut self, index: usize, mut form: Pages) -> Result<(), ArchiveError<S::Error>> {
        let reader = self.reader.clone();
        let level = self.level();
        let count = page_count(&reader.archive, index)?;
        let mut next = 0;
        while next < count && !self.out.is_past() {
            let batch = reader.members(Pass::Contents, index, next).await?;
            let mut pages = &batch[..];
            next += pages.len() as u32;
            while let Some((page, later)) = pages.split_first()
                && self.out.is_ahead(form.len(level, page))
            {
                self.out.skip(form.len(level, page));
                pages = later;
            }
            while !pages.is_empty() && !self.out.is_past() {
                let from = next - pages.len() as u32;
                let max_bytes = self.out.remaining().min(reader.source.piece_bytes() as u64).max(1) as usize;
                let frames = reader.frames(index, from, pages, max_bytes).await?;
                let (now, later) = pages.split_at(frames.len());
                if level == Level::Frames {
                    for (page, frame) in now.iter().zip(&frames) {
                        form.begin(&mut self.out, level, page);
                        self.out.put_frame(frame);
                        form.end(&mut self.out);
                    }
                } else {
                    self.put_stored(index, from, now, frames, &form);
                }
                pages = later;
                self.out.drain().await?;
            }
        }
        Ok(())
    }

    /// Appends pages as stored blocks, which the pool makes.
    fn put_stored(&mut self, index: usize, from: u32, pages: &[PageMember], frames: Vec<Bytes>, form: &Pages) {
        let level = self.level();
        let len = pages.iter().map(|page| form.len(level, page)).sum::<u64>() as usize;
        let inputs = (from..).zip(pages).zip(frames).map(|((page, member), frame)| (Some(page), member.member, frame));
        let (pages, mut form) = (pages.to_vec(), form.clone());
        let job = encode::start_members(inputs.collect(), len, move |out, nth, text| {
            form.begin(out, level, &pages[nth]);
            encode::put_stored(out, text);
            form.end(out);
        });
        self.out.put_encoding(index, len, job);
    }

    async fn mets(&mut self, index: usize, name: String) -> Result<(), ArchiveError<S::Error>> {
        let group = &self.reader.archive.groups[index];
        let Some(mets) = group.mets else { return Ok(()) };
        let entry = names::member_entry(self.level(), !group.name.is_ascii(), &mets);
        if self.out.is_ahead(entry.len(name.len())) || self.out.is_past() {
            self.out.skip(entry.len(name.len()));
            return Ok(());
        }
        let frame = self.reader.mets_frame(index, &mets).await?;
        if self.level() == Level::Frames {
            entry.put_local(&mut self.out, name.as_bytes());
            self.out.put_frame(&frame);
            self.out.put(&FRAME_END);
        } else {
            let len = entry.len(name.len()) as usize;
            let job = encode::start_members(vec![(None, mets, frame)], len, move |out, _, text| {
                entry.put_local(out, name.as_bytes());
                encode::put_stored(out, text);
                out.put(&FRAME_END);
            });
            self.out.put_encoding(index, len, job);
        }
        self.out.drain().await
    }

    fn errors(&mut self) {
        self.out.seek(self.map.errors_at);
        if let Some(text) = &self.reader.archive.errors {
            put_errors(&mut self.out, text);
        }
    }

    /// The central directory, by a second pass over the members.
    async fn central(&mut self) -> Result<(), ArchiveError<S::Error>> {
        self.out.seek(self.map.end.central_at);
        if let Some((name, entry)) = self.map.one {
            entry.put_central(&mut self.out, name.as_bytes(), 0);
        }
        for index in self.first_wanted(&self.map.central)..self.reader.archive.groups.len() {
            self.out.seek(self.map.central[index]);
            if self.out.is_past() {
                return Ok(());
            }
            self.group_central(index).await?;
            if self.out.position() != self.map.central[index + 1] {
                return Err(self.reader.mismatch(index, "its members changed while they were sent"));
            }
        }
        if let Some(text) = &self.reader.archive.errors {
            self.out.seek(self.map.central_errors_at());
            names::errors_entry(text).put_central(&mut self.out, names::ERRORS, self.map.errors_at);
        }
        Ok(())
    }

    async fn group_central(&mut self, index: usize) -> Result<(), ArchiveError<S::Error>> {
        let archive = self.reader.archive.clone();
        let Some(names) = archive.names(index) else { return Ok(()) };
        let group = &archive.groups[index];
        let mut at = self.map.groups[index];
        if let Some(name) = names.directory {
            let entry = EntryHeader::directory(name.as_bytes());
            entry.put_central(&mut self.out, name.as_bytes(), at);
            at += entry.len(name.len());
        }
        match names.pages {
            PageEntries::Apart(names) => self.pages_central(index, names, at).await?,
            PageEntries::Joined(name) => {
                archive.joined_entry(index).put_central(&mut self.out, name.as_bytes(), at);
            }
        }
        if let Some(mets) = group.mets {
            let entry = names::member_entry(archive.level, !group.name.is_ascii(), &mets);
            let at = self.map.groups[index + 1] - entry.len(names.mets.len());
            entry.put_central(&mut self.out, names.mets.as_bytes(), at);
        }
        self.out.drain().await
    }

    async fn pages_central(
        &mut self,
        index: usize,
        mut names: PageNames,
        mut at: u64,
    ) -> Result<(), ArchiveError<S::Error>> {
        let reader = self.reader.clone();
        let utf8 = !reader.archive.groups[index].name.is_ascii();
        let count = page_count(&reader.archive, index)?;
        let mut next = 0;
        while next < count {
            let pages = reader.members(Pass::Directory, index, next).await?;
            for page in pages.iter() {
                let entry = names::member_entry(reader.archive.level, utf8, &page.member);
                entry.put_central(&mut self.out, names.of(page.seq), at);
                at += entry.len(names.len());
            }
            next += pages.len() as u32;
            self.out.drain().await?;
        }
        Ok(())
    }
}

/// The entry `ERROR.err`, in stored blocks.
pub(crate) fn put_errors(out: &mut impl Sink, text: &[u8]) {
    names::errors_entry(text).put_local(out, names::ERRORS);
    encode::put_stored(out, text);
    out.put(&FRAME_END);
}

//! Lists the children of a container in pages: shard by shard, each in the order of names. The way
//! back goes through the shards and the names in the opposite order. A child whose marks settle
//! nothing is looked up, and the finding is recorded as a mark.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use store::{Class, Step, Strength, boxed};

use crate::children::{Children, Marked, Name, Room};
use crate::container_body::shard_of;
use crate::containment::Parent;
use crate::error::{ObjectsError, ObjectsResult};
use crate::handle::Heads;
use crate::head::{HeadRow, ObjectState};
use crate::keys;
use crate::mark::Settled;
use crate::revision::RevisionId;
use crate::rules::Rule;

/// Where a listing continues: after a name in a shard. The token keeps the number of shards at the
/// beginning of the listing. The listing uses that number to its end, however many shards there are
/// by then. Its text is opaque and safe in a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListToken {
    shards: u16,
    shard: u16,
    name: String,
}

impl ListToken {
    /// The token of the same listing after another child of it.
    pub fn moved_to(&self, name: &str) -> Self {
        Self { shards: self.shards, shard: shard_of(name, self.shards), name: name.to_owned() }
    }

    /// The token of a listing that begins now, after a child.
    pub fn of_first(parent: &Parent, name: &str) -> Self {
        Self { shards: parent.shards(), shard: 0, name: String::new() }.moved_to(name)
    }
}

impl fmt::Display for ListToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&self.shards.to_be_bytes(), &self.shard.to_be_bytes(), self.name.as_bytes()].concat();
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for ListToken {
    type Err = ObjectsError;

    fn from_str(text: &str) -> ObjectsResult<Self> {
        let invalid = || ObjectsError::Invalid(format!("{text:?} is no place in a listing"));
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| invalid())?;
        let (shards, rest) = bytes.split_first_chunk().ok_or_else(invalid)?;
        let (shard, name) = rest.split_first_chunk().ok_or_else(invalid)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| invalid())?;
        if name.chars().any(char::is_control) {
            return Err(invalid());
        }
        Ok(Self { shards: u16::from_be_bytes(*shards), shard: u16::from_be_bytes(*shard), name })
    }
}

/// A child that a listing found live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its name.
    pub name: String,
    /// The note from when it was announced.
    pub note: Bytes,
}

impl Found {
    fn bytes(&self) -> usize {
        self.name.len() + self.note.len()
    }
}

impl Heads {
    /// A page of at most `max` children of a container, and where the listing continues. It has
    /// fewer if they have very long notes.
    #[boxed]
    pub async fn list_children(
        &self,
        parent: &Parent,
        after: Option<&ListToken>,
        max: usize,
    ) -> ObjectsResult<(Vec<Found>, Option<ListToken>)> {
        let mut live: Vec<Found> = Vec::new();
        let mut room = Room::new(self, max);
        let first = after.map_or(0, |token| token.shard);
        let shards = shards_listed(parent, after)?;
        for shard in first..shards {
            let from = match after {
                Some(token) if token.shard == shard => keys::after_child(&token.name),
                _ => Bytes::new(),
            };
            let mut children = Children::new(parent.partitions_of(shard, shards), from, Strength::Usual);
            // Unsettled children are looked up in batches, so a page may have too few at first.
            while room.children() > 0 {
                let names = children.take(self, room.children()).await?;
                if names.is_empty() {
                    break;
                }
                for child in self.live_of(parent, names).await? {
                    // The page may have had some before.
                    if room.children() == 0 {
                        break;
                    }
                    room.take(child.bytes());
                    live.push(child);
                }
            }
            if room.children() == 0 {
                let next = live.last().map(|last| ListToken { shards, shard, name: last.name.clone() });
                return Ok((live, next));
            }
        }
        Ok((live, None))
    }

    /// A page of at most `max` children of a container that ends where another page begins; `None`:
    /// at the last child. The children are in the order of the listing. The second value is where
    /// they begin; `None` means at the first child. Like any page, it has fewer if they have very
    /// long notes.
    #[boxed]
    pub async fn children_before(
        &self,
        parent: &Parent,
        before: Option<&ListToken>,
        max: usize,
    ) -> ObjectsResult<(Vec<Found>, Option<ListToken>)> {
        let mut live: Vec<Found> = Vec::new();
        let mut room = Room::new(self, max);
        let shards = shards_listed(parent, before)?;
        let last = before.map_or(shards - 1, |before| before.shard.min(shards - 1));
        for shard in (0..=last).rev() {
            let to = match before.filter(|before| before.shard == shard) {
                // The place is where the shard begins.
                Some(before) if before.name.is_empty() => continue,
                Some(before) => Some(keys::after_child(&before.name)),
                None => None,
            };
            let mut children = Children::backward(parent.partitions_of(shard, shards), to);
            loop {
                // The page begins after the first child that does not fit.
                let names = children.take(self, room.children().saturating_add(1)).await?;
                if names.is_empty() {
                    break;
                }
                for child in self.live_of(parent, names).await? {
                    if room.children() == 0 {
                        live.reverse();
                        return Ok((live, Some(ListToken { shards, shard, name: child.name })));
                    }
                    room.take(child.bytes());
                    live.push(child);
                }
            }
        }
        live.reverse();
        Ok((live, None))
    }

    /// Returns those of `names` that are live, each once, and sweeps unsettled ones. A child is
    /// left out if its marks do not settle it and its head is damaged.
    async fn live_of(&self, parent: &Parent, names: Vec<Name>) -> ObjectsResult<Vec<Found>> {
        let unsettled = names.iter().filter(|name| name.unsettled());
        let asked: Vec<_> = unsettled.map(|name| parent.container().child_partition(&name.name)).collect();
        let mut heads = match asked.is_empty() {
            true => Vec::new(),
            false => self.heads_at(&asked, Strength::Strong).await?,
        }
        .into_iter();
        let mut live = Vec::with_capacity(names.len());
        for name in names {
            let note = match name.unsettled() {
                false => name.settled_live().map(|marked| marked.note.clone()),
                true => match heads.next() {
                    Some(Ok(head)) => self.settle(parent, &name, head.as_ref()).await,
                    Some(Err(error)) if error.is_damage() => {
                        tracing::warn!(name = %name.name, %error, "a head that a listing asks cannot be read");
                        name.settled_live().map(|marked| marked.note.clone())
                    }
                    Some(Err(error)) => return Err(error),
                    None => None,
                },
            };
            live.extend(note.map(|note| Found { name: name.name, note }));
        }
        Ok(live)
    }

    /// Returns the note of the incarnation at which a name is live, according to its settled marks
    /// or else to its head; puts the marks that settle it. A failed sweep changes no result, and
    /// the next listing repeats it.
    async fn settle(&self, parent: &Parent, name: &Name, head: Option<&HeadRow>) -> Option<Bytes> {
        let mut live = None;
        for marked in &name.incarnations {
            match marked.marks.settled() {
                Settled::Live => live = Some(marked.note.clone()),
                Settled::Dead => {}
                Settled::Unsettled => {
                    if !self.keeps(Rule::Confirm) && !marked.marks.removing() {
                        live = Some(marked.note.clone());
                        continue;
                    }
                    if is_live_at(head, marked.incarnation) {
                        live = Some(marked.note.clone());
                    }
                    if !self.is_home() && self.keeps(Rule::SweepAtHome) {
                        continue;
                    }
                    if let Err(error) = self.sweep(parent, &name.name, marked, head).await {
                        tracing::debug!(name = %name.name, %error, "a sweep was left for later");
                    }
                }
            }
        }
        live
    }

    /// Puts the mark that an unsettled child lacks. If that is the mark of its removal, its head is
    /// fenced first, so that it can never be switched in again.
    async fn sweep(&self, parent: &Parent, name: &str, marked: &Marked, head: Option<&HeadRow>) -> ObjectsResult<()> {
        let Marked { incarnation, marks, .. } = *marked;
        if is_live_at(head, incarnation) {
            return match marks.removing() {
                true => Ok(()),
                false => {
                    let change = self.inner.revisions.mint_above(incarnation);
                    self.put_mark(parent.confirm(name, incarnation, change)).await
                }
            };
        }
        // A container must not be marked as gone before its contents are: until then the job that
        // deletes its parent has to find it.
        let is_being_deleted =
            |row: &HeadRow| row.head.state == ObjectState::Deleting && row.head.incarnation == incarnation;
        let age = self.inner.surroundings.clock.now().since(incarnation.time());
        let is_left = |head: Option<&HeadRow>| head.is_some_and(is_being_deleted) && self.keeps(Rule::EndNested);
        if is_left(head) || age < self.inner.options.sweep_after {
            return Ok(());
        }
        if !self.keeps(Rule::KillBefore) {
            let change = self.inner.revisions.mint_above(incarnation);
            self.put_mark(parent.removed(name, incarnation, None, change)).await?;
        }
        let live_otherwise = |row: &HeadRow| row.head.state == ObjectState::Live && row.head.incarnation != incarnation;
        let partition = parent.container().child_partition(name);
        if !head.is_some_and(live_otherwise) {
            let fenced = self.fence(&partition, incarnation).await?;
            // It may have been created since, and its deletion may have begun.
            if is_live_at(fenced.as_ref(), incarnation) || is_left(fenced.as_ref()) {
                return Ok(());
            }
        }
        let end = self.end_of(&partition, incarnation).await?;
        let change = self.inner.revisions.mint_above(incarnation);
        self.put_mark(parent.removed(name, incarnation, end.map(|head| head.revision), change)).await
    }

    async fn put_mark(&self, mark: Step) -> ObjectsResult<()> {
        self.put_acknowledged(Class::Description, vec![mark]).await
    }
}

/// The number of shards, at least 1, of a listing that continues at a place.
fn shards_listed(parent: &Parent, place: Option<&ListToken>) -> ObjectsResult<u16> {
    let shards = place.map_or(parent.shards(), |token| token.shards);
    match shards > 0 && parent.shards().is_multiple_of(shards) {
        true => Ok(shards),
        false => Err(ObjectsError::Invalid("it is no place in this listing".to_owned())),
    }
}

fn is_live_at(head: Option<&HeadRow>, incarnation: RevisionId) -> bool {
    head.is_some_and(|row| row.head.state == ObjectState::Live && row.head.incarnation == incarnation)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_token_reads_back_from_its_text_and_rubbish_is_refused() {
        let token = ListToken { shards: 1_024, shard: 513, name: "uc2.ark:/13960/ü".to_owned() };
        let text = token.to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'), "{text}");
        assert_eq!(text.parse::<ListToken>().unwrap(), token);
        for rubbish in ["", "A", "AAAA", "%%%", "AAAAAA\u{0}"] {
            assert!(rubbish.parse::<ListToken>().is_err(), "{rubbish:?}");
        }
    }
}

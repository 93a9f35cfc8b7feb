//! A record while it is being changed.

use store::UnixMillis;

use crate::attributes::Attributes;
use crate::error::{RecordError, RecordResult};
use crate::record::{Content, Record};

/// The record of an id, as it was found and as it is to be stored. All that is done to it happens at
/// one time, and is seen as a whole or not at all.
#[derive(Clone, Debug)]
pub struct Draft {
    record: Option<Record>,
    is_changed: bool,
    /// Whether nobody looks at it again.
    is_read_once: bool,
    /// The time at which all of it happens.
    pub now: UnixMillis,
}

impl Draft {
    /// A draft of the stored record; `None`: there is none.
    pub fn new(stored: Option<Record>, now: UnixMillis) -> Self {
        let record = stored.and_then(|record| record.live(now));
        Self { record, is_changed: false, is_read_once: false, now }
    }

    /// The same for what only reads, and is the last to see the draft: it may keep what it finds.
    pub fn read_once(stored: Option<Record>, now: UnixMillis) -> Self {
        Self { is_read_once: true, ..Self::new(stored, now) }
    }

    /// The record.
    pub fn record(&self) -> Option<&Record> {
        self.record.as_ref()
    }

    /// The record to be stored, if it was changed; `Some(None)`: it is deleted.
    pub fn change(self) -> Option<Option<Record>> {
        self.is_changed.then_some(self.record)
    }

    /// Stores a record in the place of what there is. A record of which nothing can be seen is
    /// deleted.
    pub fn put(&mut self, record: Record) {
        self.record = record.live(self.now);
        self.is_changed = true;
    }

    /// Deletes the record, and returns whether there was one.
    pub fn delete(&mut self) -> bool {
        let was_there = self.record.take().is_some();
        self.is_changed |= was_there;
        was_there
    }

    /// Its attributes; `None`: there is no record.
    ///
    /// Errors: [`RecordError::OtherKind`].
    pub fn attributes(&self) -> RecordResult<Option<&Attributes>> {
        self.record.as_ref().map(Record::as_attributes).transpose()
    }

    /// Its attributes, to be kept. They are a copy, unless the caller is the last to see the draft
    /// ([`Draft::read_once`]): a copy takes an allocation for each name and value.
    ///
    /// Errors: [`RecordError::OtherKind`].
    pub fn take_attributes(&mut self) -> RecordResult<Option<Attributes>> {
        if !self.is_read_once {
            return Ok(self.attributes()?.cloned());
        }
        match self.record.take().map(|record| record.content) {
            None => Ok(None),
            Some(Content::Attributes(attributes)) => Ok(Some(attributes)),
            Some(Content::Text(_)) => Err(RecordError::OtherKind),
        }
    }

    /// Changes its attributes: none if there is no record. If none are left, there is no record. A
    /// change that fails must do so before it changes anything.
    ///
    /// Errors: [`RecordError::OtherKind`], and those of the change.
    pub fn change_attributes<T, E: From<RecordError>>(
        &mut self,
        change: impl FnOnce(&mut Attributes) -> Result<T, E>,
    ) -> Result<T, E> {
        // In its place, and not on a copy, which takes longer than most changes.
        let Some(record) = &mut self.record else {
            let mut attributes = Attributes::default();
            let answer = change(&mut attributes)?;
            if !attributes.is_empty() {
                self.put(Record::attributes(attributes));
            }
            return Ok(answer);
        };
        let attributes = record.as_attributes_mut()?;
        attributes.note_changes();
        let answer = change(attributes);
        let is_changed = attributes.is_changed();
        debug_assert!(answer.is_ok() || !is_changed, "a change failed after it had changed something");
        if is_changed && let Some(record) = self.record.take() {
            self.put(record);
        }
        answer
    }

    /// Changes the record, if there is one.
    pub fn change_record<T>(&mut self, change: impl FnOnce(&mut Record) -> T) -> Option<T> {
        let mut record = self.record.clone()?;
        let answer = change(&mut record);
        if self.record.as_ref() != Some(&record) {
            self.put(record);
        }
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;

    use super::*;
    use crate::attributes::Attribute;

    const NOW: UnixMillis = UnixMillis(1_000);
    const NAME: Bytes = Bytes::from_static(b"name");

    fn stored() -> Option<Record> {
        Some(Record::attributes([(NAME, Attribute::lasting(NAME))].into_iter().collect()))
    }

    /// What becomes of the stored record if its attribute is set to a value; `None`: it is not
    /// written.
    fn set(stored: Option<Record>, value: &'static str) -> Option<Option<Record>> {
        let mut draft = Draft::new(stored, NOW);
        let set = |all: &mut Attributes| Ok::<_, RecordError>(all.set(NAME, Attribute::lasting(value.into())));
        draft.change_attributes(set).unwrap();
        draft.change()
    }

    #[test]
    fn a_record_is_written_only_if_an_attribute_changes() {
        assert_eq!(set(stored(), "name"), None);
        let changed = set(stored(), "other").unwrap().unwrap();
        assert_eq!(changed.as_attributes().unwrap().get(&NAME), Some(&Attribute::lasting("other".into())));
        assert_eq!(set(None, "name").unwrap(), stored());
    }

    #[test]
    fn a_change_that_fails_and_one_that_leaves_nothing_write_no_record() {
        for stored in [stored(), None] {
            let was_there = stored.is_some();
            let mut draft = Draft::new(stored, NOW);
            let add = |all: &mut Attributes| all.increment(&NAME, 1);
            assert_eq!(draft.change_attributes(add).is_err(), was_there);
            let delete = |all: &mut Attributes| Ok::<_, RecordError>(all.delete(&NAME));
            draft.change_attributes(delete).unwrap();
            assert_eq!(draft.record(), None);
            assert_eq!(draft.change(), Some(None), "was there: {was_there}");
        }
        let mut draft = Draft::new(Some(Record::text(NAME)), NOW);
        let refused = draft.change_attributes(|_| Ok::<_, RecordError>(()));
        assert_eq!((refused, draft.change()), (Err(RecordError::OtherKind), None));
    }

    #[test]
    fn only_who_is_the_last_to_see_a_draft_takes_its_attributes_out_of_it() {
        for (mut draft, left) in [(Draft::new(stored(), NOW), stored()), (Draft::read_once(stored(), NOW), None)] {
            assert_eq!(draft.take_attributes().unwrap().map(Record::attributes), stored());
            assert_eq!(draft.record(), left.as_ref());
        }
        let mut text = Draft::read_once(Some(Record::text(NAME)), NOW);
        assert_eq!(text.take_attributes(), Err(RecordError::OtherKind));
        assert_eq!(Draft::read_once(None, NOW).take_attributes(), Ok(None));
    }
}

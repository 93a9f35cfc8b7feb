//! A record while it is being changed.

use store::UnixMillis;

use crate::attributes::Attributes;
use crate::error::{RecordError, RecordResult};
use crate::record::Record;

/// The record of an id, as it was found and as it is to be stored. All that is done to it happens at
/// one time, and is seen as a whole or not at all.
#[derive(Debug)]
pub struct Draft {
    record: Option<Record>,
    is_changed: bool,
    /// The time at which all of it happens.
    pub now: UnixMillis,
}

impl Draft {
    /// A draft of the stored record; `None`: there is none.
    pub fn new(stored: Option<Record>, now: UnixMillis) -> Self {
        Self { record: stored.and_then(|record| record.live(now)), is_changed: false, now }
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

    /// Changes its attributes: none if there is no record. If none are left, there is no record. If
    /// the change fails, nothing is changed.
    ///
    /// Errors: [`RecordError::OtherKind`], and those of the change.
    pub fn change_attributes<T, E: From<RecordError>>(
        &mut self,
        change: impl FnOnce(&mut Attributes) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut record = self.record.clone().unwrap_or_else(|| Record::attributes(Attributes::default()));
        let answer = change(record.as_attributes_mut()?)?;
        if self.record.as_ref() != Some(&record) && !(self.record.is_none() && record.is_empty()) {
            self.put(record);
        }
        Ok(answer)
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

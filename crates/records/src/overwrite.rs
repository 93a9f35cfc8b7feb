//! A change that does not depend on what is stored.

use bytes::Bytes;
use indexmap::IndexMap;
use store::UnixMillis;

use crate::attributes::Attribute;
use crate::record::{Content, Record};

/// What is to become of a record, whatever it is now: what mode fast writes without reading.
#[derive(Debug)]
pub struct Overwrite {
    /// Whether nothing of what is stored stays.
    pub(crate) replaces: bool,
    pub(crate) text: Option<Record>,
    /// Attributes that are set, each as a record of its own; `None`: deleted.
    pub(crate) attributes: IndexMap<Bytes, Option<Record>>,
    /// The time at which all of it happens.
    pub now: UnixMillis,
}

impl Overwrite {
    /// A change that leaves all as it is.
    pub fn new(now: UnixMillis) -> Self {
        Self { replaces: false, text: None, attributes: IndexMap::new(), now }
    }

    /// Deletes the record.
    pub fn delete(&mut self) {
        *self = Self { replaces: true, ..Self::new(self.now) };
    }

    /// Stores a record in the place of what there is. An expiry of the record is that of each
    /// attribute.
    pub fn put(&mut self, record: Record) {
        self.delete();
        let Some(record) = record.live(self.now) else { return };
        match record.content {
            Content::Text(_) => self.text = Some(record),
            Content::Attributes(attributes) => {
                for (name, attribute) in attributes.iter() {
                    self.set(name.clone(), attribute.clone(), record.expires_at);
                }
            }
        }
    }

    /// Sets an attribute, with an expiry that it has as a part of the record.
    pub fn set(&mut self, name: Bytes, attribute: Attribute, of_record: Option<UnixMillis>) {
        self.text = None;
        let part = Record::attributes([(name.clone(), attribute)].into_iter().collect());
        let part = Record { expires_at: of_record, ..part }.live(self.now);
        self.attributes.insert(name, part);
    }

    /// Deletes an attribute.
    pub fn delete_attribute(&mut self, name: Bytes) {
        self.attributes.insert(name, None);
    }
}

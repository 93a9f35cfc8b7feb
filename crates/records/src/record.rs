//! A record.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use crate::attributes::{Attribute, Attributes};
use crate::error::{RecordError, RecordResult};
use crate::expiry::{ExpiryChange, ExpiryRule};

/// What a record holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// One value.
    Text(Bytes),
    /// Named values.
    Attributes(Attributes),
}

/// A record: what it holds, and when it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What it holds.
    pub content: Content,
    /// From when on nobody sees it; `None`: it does not expire by itself.
    pub expires_at: Option<UnixMillis>,
}

impl Record {
    /// A text that does not expire by itself.
    pub fn text(value: Bytes) -> Self {
        Self { content: Content::Text(value), expires_at: None }
    }

    /// Attributes that do not expire as a whole.
    pub fn attributes(attributes: Attributes) -> Self {
        Self { content: Content::Attributes(attributes), expires_at: None }
    }

    /// The record as it is seen at a time; `None`: all of it has expired.
    pub fn live(mut self, now: UnixMillis) -> Option<Self> {
        if self.expires_at.is_some_and(|at| at <= now) {
            return None;
        }
        if let Content::Attributes(attributes) = &mut self.content {
            attributes.drop_expired(now);
        }
        (!self.is_empty()).then_some(self)
    }

    /// Whether nothing is left of it. Such a record does not exist.
    pub fn is_empty(&self) -> bool {
        matches!(&self.content, Content::Attributes(attributes) if attributes.is_empty())
    }

    /// About how many bytes it takes in memory.
    pub fn bytes(&self) -> usize {
        const PART: usize = 64;
        let attribute = |(name, attribute): (&Bytes, &Attribute)| PART + name.len() + attribute.value.len();
        PART + match &self.content {
            Content::Text(value) => value.len(),
            Content::Attributes(attributes) => attributes.iter().map(attribute).sum(),
        }
    }

    /// Its text.
    ///
    /// Errors: [`RecordError::OtherKind`].
    pub fn as_text(&self) -> RecordResult<&Bytes> {
        match &self.content {
            Content::Text(value) => Ok(value),
            Content::Attributes(_) => Err(RecordError::OtherKind),
        }
    }

    /// Its attributes.
    ///
    /// Errors: [`RecordError::OtherKind`].
    pub fn as_attributes(&self) -> RecordResult<&Attributes> {
        match &self.content {
            Content::Attributes(attributes) => Ok(attributes),
            Content::Text(_) => Err(RecordError::OtherKind),
        }
    }

    /// Its attributes, to be changed.
    ///
    /// Errors: [`RecordError::OtherKind`].
    pub fn as_attributes_mut(&mut self) -> RecordResult<&mut Attributes> {
        match &mut self.content {
            Content::Attributes(attributes) => Ok(attributes),
            Content::Text(_) => Err(RecordError::OtherKind),
        }
    }

    /// Sets its expiry. The caller deletes a record that is [`ExpiryChange::Deleted`].
    pub fn expire(&mut self, at: UnixMillis, rule: ExpiryRule, now: UnixMillis) -> ExpiryChange {
        if !rule.allows(self.expires_at, at) {
            return ExpiryChange::Refused;
        }
        self.expires_at = Some(at);
        if at <= now { ExpiryChange::Deleted } else { ExpiryChange::Set }
    }

    /// From when on nobody sees any of it; `None`: a part of it does not expire by itself.
    pub fn last_expiry(&self) -> Option<UnixMillis> {
        let of_content = match &self.content {
            Content::Text(_) => None,
            Content::Attributes(attributes) => attributes.last_expiry(),
        };
        match (self.expires_at, of_content) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000);

    fn with(expiries: &[Option<u64>]) -> Record {
        let attributes = expiries.iter().enumerate().map(|(number, at)| {
            let expires_at = at.map(UnixMillis);
            (Bytes::from(number.to_string()), Attribute { value: Bytes::new(), expires_at })
        });
        Record::attributes(attributes.collect())
    }

    #[test]
    fn a_record_is_seen_until_it_expires() {
        let mut record = Record::text(Bytes::from_static(b"text"));
        assert_eq!(record.expire(UnixMillis(2_000), ExpiryRule::default(), NOW), ExpiryChange::Set);
        assert!(record.clone().live(UnixMillis(1_999)).is_some());
        assert!(record.clone().live(UnixMillis(2_000)).is_none());
        assert_eq!(record.expire(NOW, ExpiryRule::default(), NOW), ExpiryChange::Deleted);
    }

    #[test]
    fn a_record_without_attributes_does_not_exist() {
        assert_eq!(with(&[Some(1_500), None]).live(UnixMillis(1_500)).unwrap().as_attributes().unwrap().len(), 1);
        assert_eq!(with(&[Some(1_500), Some(1_600)]).live(UnixMillis(1_600)), None);
    }

    #[test]
    fn the_last_expiry_is_that_of_the_record_or_of_its_last_attribute() {
        assert_eq!(with(&[Some(2), Some(3)]).last_expiry(), Some(UnixMillis(3)));
        assert_eq!(with(&[Some(2), None]).last_expiry(), None);
        let whole = Record { expires_at: Some(UnixMillis(9)), ..with(&[Some(2), None]) };
        assert_eq!(whole.last_expiry(), Some(UnixMillis(9)));
        let earlier = Record { expires_at: Some(UnixMillis(1)), ..with(&[Some(2), Some(3)]) };
        assert_eq!(earlier.last_expiry(), Some(UnixMillis(1)));
    }

    #[test]
    fn a_text_has_no_attributes() {
        let mut text = Record::text(Bytes::new());
        assert_eq!(text.as_attributes(), Err(RecordError::OtherKind));
        assert_eq!(text.as_attributes_mut(), Err(RecordError::OtherKind));
        assert_eq!(with(&[None]).as_text(), Err(RecordError::OtherKind));
    }
}

//! The named values of a record, in the order in which they were first set.

use bytes::Bytes;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use store::UnixMillis;

use crate::error::{RecordError, RecordResult};
use crate::expiry::{ExpiryChange, ExpiryRule};
use crate::number::{decimal_sum, integer};

/// A named value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// The value.
    pub value: Bytes,
    /// From when on nobody sees it; `None`: it does not expire by itself.
    pub expires_at: Option<UnixMillis>,
}

impl Attribute {
    /// A value that does not expire by itself.
    pub fn lasting(value: Bytes) -> Self {
        Self { value, expires_at: None }
    }
}

/// Named values. What has expired must be dropped ([`Attributes::drop_expired`]) before anything
/// else is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes(IndexMap<Bytes, Attribute>);

impl Attributes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The attribute of a name.
    pub fn get(&self, name: &[u8]) -> Option<&Attribute> {
        self.0.get(name)
    }

    /// The attribute at a position.
    pub fn at(&self, position: usize) -> Option<(&Bytes, &Attribute)> {
        self.0.get_index(position)
    }

    /// Names and attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Attribute)> {
        self.0.iter()
    }

    /// Sets an attribute, and returns whether it is new. What is there keeps its position and loses
    /// its expiry.
    pub fn set(&mut self, name: Bytes, attribute: Attribute) -> bool {
        self.0.insert(name, attribute).is_none()
    }

    /// Deletes an attribute and returns it.
    pub fn delete(&mut self, name: &[u8]) -> Option<Attribute> {
        self.0.shift_remove(name)
    }

    /// Adds to an attribute that is an integer, or absent and so zero. It keeps its expiry.
    ///
    /// Errors: [`RecordError::NotAnInteger`], [`RecordError::Overflow`].
    pub fn increment(&mut self, name: &Bytes, by: i64) -> RecordResult<i64> {
        let stored = self.get(name).map_or(Ok(0), |attribute| integer(&attribute.value))?;
        let sum = stored.checked_add(by).ok_or(RecordError::Overflow)?;
        self.replace(name, sum.to_string().into());
        Ok(sum)
    }

    /// Adds to an attribute that is a decimal number, or absent and so zero. It keeps its expiry.
    ///
    /// Errors: as of [`decimal_sum`].
    pub fn increment_decimal(&mut self, name: &Bytes, by: &[u8]) -> RecordResult<Bytes> {
        let stored = self.get(name).map_or(&b"0"[..], |attribute| &attribute.value);
        let sum = Bytes::from(decimal_sum(stored, by)?);
        self.replace(name, sum.clone());
        Ok(sum)
    }

    fn replace(&mut self, name: &Bytes, value: Bytes) {
        let expires_at = self.get(name).and_then(|attribute| attribute.expires_at);
        self.set(name.clone(), Attribute { value, expires_at });
    }

    /// Sets the expiry of an attribute.
    pub fn expire(&mut self, name: &[u8], at: UnixMillis, rule: ExpiryRule, now: UnixMillis) -> ExpiryChange {
        let Some(attribute) = self.0.get_mut(name) else { return ExpiryChange::Missing };
        if !rule.allows(attribute.expires_at, at) {
            return ExpiryChange::Refused;
        }
        if at <= now {
            self.delete(name);
            return ExpiryChange::Deleted;
        }
        attribute.expires_at = Some(at);
        ExpiryChange::Set
    }

    /// Drops the expiry of an attribute and returns it. `None`: there is no such attribute.
    pub fn persist(&mut self, name: &[u8]) -> Option<Option<UnixMillis>> {
        self.0.get_mut(name).map(|attribute| attribute.expires_at.take())
    }

    /// Deletes what has expired.
    pub fn drop_expired(&mut self, now: UnixMillis) {
        if self.0.values().any(|attribute| attribute.expires_at.is_some_and(|at| at <= now)) {
            self.0.retain(|_, attribute| attribute.expires_at.is_none_or(|at| at > now));
        }
    }

    /// From when on nobody sees any of them; `None`: one does not expire by itself.
    pub fn last_expiry(&self) -> Option<UnixMillis> {
        let expiries: Option<Vec<UnixMillis>> = self.0.values().map(|attribute| attribute.expires_at).collect();
        expiries?.into_iter().max()
    }
}

impl FromIterator<(Bytes, Attribute)> for Attributes {
    fn from_iter<T: IntoIterator<Item = (Bytes, Attribute)>>(attributes: T) -> Self {
        Self(attributes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW: UnixMillis = UnixMillis(1_000);
    const LATER: UnixMillis = UnixMillis(2_000);

    fn name(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn lasting(names: &[&'static str]) -> Attributes {
        names.iter().map(|text| (name(text), Attribute::lasting(name(text)))).collect()
    }

    #[test]
    fn setting_keeps_the_position_and_drops_the_expiry() {
        let mut attributes = lasting(&["a", "b"]);
        assert_eq!(attributes.expire(b"a", LATER, ExpiryRule::default(), NOW), ExpiryChange::Set);
        assert!(!attributes.set(name("a"), Attribute::lasting(name("new"))));
        assert!(attributes.set(name("c"), Attribute::lasting(name("c"))));
        let names: Vec<&Bytes> = attributes.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "b", "c"]);
        assert_eq!(attributes.get(b"a"), Some(&Attribute::lasting(name("new"))));
    }

    #[test]
    fn adding_keeps_the_expiry() {
        let mut attributes = Attributes::default();
        assert_eq!(attributes.increment(&name("n"), 5), Ok(5));
        attributes.expire(b"n", LATER, ExpiryRule::default(), NOW);
        assert_eq!(attributes.increment(&name("n"), -7), Ok(-2));
        assert_eq!(attributes.increment_decimal(&name("n"), b"0.5"), Ok(name("-1.5")));
        assert_eq!(attributes.get(b"n").unwrap().expires_at, Some(LATER));
        assert_eq!(attributes.increment(&name("n"), 1), Err(RecordError::NotAnInteger));
        attributes.set(name("n"), Attribute::lasting(i64::MAX.to_string().into()));
        assert_eq!(attributes.increment(&name("n"), 1), Err(RecordError::Overflow));
    }

    #[test]
    fn an_attribute_that_has_expired_is_gone() {
        let mut attributes = lasting(&["a", "b"]);
        let rule = ExpiryRule::default();
        assert_eq!(attributes.expire(b"x", LATER, rule, NOW), ExpiryChange::Missing);
        assert_eq!(attributes.expire(b"a", LATER, rule, NOW), ExpiryChange::Set);
        assert_eq!(attributes.last_expiry(), None, "the other stays");
        assert_eq!(attributes.expire(b"b", NOW, rule, NOW), ExpiryChange::Deleted);
        assert_eq!((attributes.len(), attributes.last_expiry()), (1, Some(LATER)));
        attributes.drop_expired(UnixMillis(LATER.0 - 1));
        assert_eq!(attributes.len(), 1);
        attributes.drop_expired(LATER);
        assert!(attributes.is_empty());
    }

    #[test]
    fn an_expiry_can_be_dropped() {
        let mut attributes = lasting(&["a"]);
        attributes.expire(b"a", LATER, ExpiryRule::default(), NOW);
        assert_eq!(attributes.persist(b"a"), Some(Some(LATER)));
        assert_eq!(attributes.persist(b"a"), Some(None));
        assert_eq!(attributes.persist(b"x"), None);
    }
}

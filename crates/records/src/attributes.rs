//! The named values of a record, in the order in which they were first set.

use std::collections::BTreeSet;

use bytes::Bytes;
use indexmap::IndexMap;
use indexmap::map::Entry;
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

/// So few attributes are deleted one by one.
const DELETED_ONE_BY_ONE: usize = 2;

/// Named values. What has expired must be dropped ([`Attributes::drop_expired`]) before anything
/// else is asked for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attributes {
    named: IndexMap<Bytes, Attribute>,
    /// Whether they have changed since [`Attributes::note_changes`].
    #[serde(skip)]
    is_changed: bool,
}

impl PartialEq for Attributes {
    fn eq(&self, other: &Self) -> bool {
        self.named == other.named
    }
}

impl Eq for Attributes {}

impl Attributes {
    /// Notes changes from now on.
    pub(crate) fn note_changes(&mut self) {
        self.is_changed = false;
    }

    /// Whether something has changed since then. What was changed and changed back counts too.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// The attribute of a name.
    pub fn get(&self, name: &[u8]) -> Option<&Attribute> {
        self.named.get(name)
    }

    /// The attribute at a position.
    pub fn at(&self, position: usize) -> Option<(&Bytes, &Attribute)> {
        self.named.get_index(position)
    }

    /// Names and attributes.
    pub fn iter(&self) -> impl Iterator<Item = (&Bytes, &Attribute)> {
        self.named.iter()
    }

    /// Sets an attribute, and returns whether it is new. What is there keeps its position and loses
    /// its expiry.
    pub fn set(&mut self, name: Bytes, attribute: Attribute) -> bool {
        match self.named.entry(name) {
            Entry::Occupied(mut entry) => {
                self.is_changed |= *entry.get() != attribute;
                entry.insert(attribute);
                false
            }
            Entry::Vacant(entry) => {
                entry.insert(attribute);
                self.is_changed = true;
                true
            }
        }
    }

    /// Deletes an attribute and returns it.
    pub fn delete(&mut self, name: &[u8]) -> Option<Attribute> {
        let deleted = self.named.shift_remove(name);
        self.is_changed |= deleted.is_some();
        deleted
    }

    /// Deletes attributes and returns them. One that is named again is gone by then. It goes over all
    /// attributes once, however many are deleted: deleting one moves all behind it.
    pub fn delete_all<'a>(&mut self, names: impl IntoIterator<Item = &'a Bytes>) -> Vec<Option<Attribute>> {
        self.delete_chosen(names, |found| (found.cloned(), found.is_some()))
    }

    /// Asks for each name what is to be said of its attribute, and whether that is deleted.
    fn delete_chosen<'a, T>(
        &mut self,
        names: impl IntoIterator<Item = &'a Bytes>,
        choose: impl Fn(Option<&Attribute>) -> (T, bool),
    ) -> Vec<T> {
        let (mut answers, mut gone) = (Vec::new(), BTreeSet::<usize>::new());
        for name in names {
            let found = self.named.get_full(&name[..]).filter(|(place, ..)| !gone.contains(place));
            let (answer, is_deleted) = choose(found.map(|(_, _, attribute)| attribute));
            answers.push(answer);
            gone.extend(found.filter(|_| is_deleted).map(|(place, ..)| place));
        }
        self.is_changed |= !gone.is_empty();
        if gone.len() <= DELETED_ONE_BY_ONE {
            // From the last one, so that the others keep their places.
            gone.iter().rev().for_each(|place| drop(self.named.shift_remove_index(*place)));
        } else {
            let mut places = 0..self.named.len();
            self.named.retain(|_, _| places.next().is_some_and(|place| !gone.contains(&place)));
        }
        answers
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
        let Some(attribute) = self.named.get_mut(name) else { return ExpiryChange::Missing };
        if !rule.allows(attribute.expires_at, at) {
            return ExpiryChange::Refused;
        }
        if at <= now {
            self.delete(name);
            return ExpiryChange::Deleted;
        }
        self.is_changed |= attribute.expires_at.replace(at) != Some(at);
        ExpiryChange::Set
    }

    /// Sets the expiry of attributes. One that is deleted and named again is missing by then.
    pub fn expire_all(
        &mut self,
        names: &[Bytes],
        at: UnixMillis,
        rule: ExpiryRule,
        now: UnixMillis,
    ) -> Vec<ExpiryChange> {
        if at > now {
            return names.iter().map(|name| self.expire(name, at, rule, now)).collect();
        }
        self.delete_chosen(names, |found| match found {
            None => (ExpiryChange::Missing, false),
            Some(attribute) if !rule.allows(attribute.expires_at, at) => (ExpiryChange::Refused, false),
            Some(_) => (ExpiryChange::Deleted, true),
        })
    }

    /// Drops the expiry of an attribute and returns it. `None`: there is no such attribute.
    pub fn persist(&mut self, name: &[u8]) -> Option<Option<UnixMillis>> {
        let dropped = self.named.get_mut(name).map(|attribute| attribute.expires_at.take());
        self.is_changed |= matches!(dropped, Some(Some(_)));
        dropped
    }

    /// Deletes what has expired.
    pub fn drop_expired(&mut self, now: UnixMillis) {
        if self.named.values().any(|attribute| attribute.expires_at.is_some_and(|at| at <= now)) {
            self.named.retain(|_, attribute| attribute.expires_at.is_none_or(|at| at > now));
            self.is_changed = true;
        }
    }

    /// From when on nobody sees any of them; `None`: one does not expire by itself.
    pub fn last_expiry(&self) -> Option<UnixMillis> {
        let expiries: Option<Vec<UnixMillis>> = self.named.values().map(|attribute| attribute.expires_at).collect();
        expiries?.into_iter().max()
    }
}

impl FromIterator<(Bytes, Attribute)> for Attributes {
    fn from_iter<T: IntoIterator<Item = (Bytes, Attribute)>>(attributes: T) -> Self {
        Self { named: attributes.into_iter().collect(), is_changed: false }
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

    /// Lists of names, some of which are there. Longer ones have names twice.
    fn lists_of_names() -> Vec<Vec<Bytes>> {
        let mut lists = Vec::new();
        for step in 1..13_usize {
            for count in 0..16_usize {
                lists.push((0..count).map(|number| Bytes::from((number * step % 13).to_string())).collect());
            }
        }
        lists
    }

    #[test]
    fn deleting_many_at_once_is_the_same_as_deleting_one_by_one() {
        let expiring = |number: u64| Attribute { value: name("v"), expires_at: Some(UnixMillis(1_000 + number)) };
        let all: Attributes = (0..10_u64).map(|number| (Bytes::from(number.to_string()), expiring(number))).collect();
        let in_order = |attributes: &Attributes| attributes.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        let later = ExpiryRule { is_set: None, order: Some(crate::expiry::Order::Later) };
        for names in lists_of_names() {
            let (mut together, mut single) = (all.clone(), all.clone());
            let deleted: Vec<_> = names.iter().map(|name| single.delete(name)).collect();
            assert_eq!(together.delete_all(&names), deleted, "{names:?}");
            assert_eq!(in_order(&together), in_order(&single), "{names:?}");
            assert_eq!((&together, together.is_changed()), (&single, single.is_changed()), "{names:?}");
            let now = UnixMillis(1_005);
            for (at, rule) in [(NOW, ExpiryRule::default()), (LATER, ExpiryRule::default()), (now, later)] {
                let (mut together, mut single) = (all.clone(), all.clone());
                let changes: Vec<_> = names.iter().map(|name| single.expire(name, at, rule, now)).collect();
                assert_eq!(together.expire_all(&names, at, rule, now), changes, "{names:?}");
                assert_eq!(in_order(&together), in_order(&single), "{names:?}");
                assert_eq!((&together, together.is_changed()), (&single, single.is_changed()), "{names:?}");
            }
        }
    }

    #[test]
    fn what_leaves_all_as_it_is_is_no_change() {
        let mut attributes = lasting(&["a"]);
        attributes.expire(b"a", LATER, ExpiryRule::default(), NOW);
        attributes.set(name("n"), Attribute::lasting(name("5")));
        let is_change = |change: &dyn Fn(&mut Attributes)| {
            let mut changed = attributes.clone();
            changed.note_changes();
            change(&mut changed);
            assert_eq!(changed.is_changed(), changed != attributes);
            changed.is_changed()
        };
        let rule = ExpiryRule::default();
        let unchanging: [&dyn Fn(&mut Attributes); 7] = [
            &|all| assert!(!all.set(name("n"), Attribute::lasting(name("5")))),
            &|all| assert_eq!(all.increment(&name("n"), 0), Ok(5)),
            &|all| assert_eq!(all.expire(b"a", LATER, rule, NOW), ExpiryChange::Set),
            &|all| assert_eq!(all.expire(b"x", LATER, rule, NOW), ExpiryChange::Missing),
            &|all| assert_eq!(all.delete(b"x"), None),
            &|all| assert_eq!(all.persist(b"n"), Some(None)),
            &|all| all.drop_expired(NOW),
        ];
        assert!(unchanging.iter().copied().all(|change| !is_change(change)));
        let changing: [&dyn Fn(&mut Attributes); 8] = [
            &|all| assert!(!all.set(name("n"), Attribute::lasting(name("6")))),
            &|all| assert!(!all.set(name("a"), Attribute::lasting(name("a")))),
            &|all| assert!(all.set(name("x"), Attribute::lasting(name("5")))),
            &|all| assert_eq!(all.increment(&name("n"), 1), Ok(6)),
            &|all| assert_eq!(all.expire(b"n", LATER, rule, NOW), ExpiryChange::Set),
            &|all| assert!(all.delete(b"n").is_some()),
            &|all| assert_eq!(all.persist(b"a"), Some(Some(LATER))),
            &|all| all.drop_expired(LATER),
        ];
        assert!(changing.iter().copied().all(is_change));
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

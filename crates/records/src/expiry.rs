//! When an expiry is set.

use store::UnixMillis;

/// How the new time must compare with the one that is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The new time must be later. Nothing is later than no expiry.
    Later,
    /// The new time must be earlier. Every time is earlier than no expiry.
    Earlier,
}

/// Under which conditions an expiry is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpiryRule {
    /// `Some(true)`: only if there is an expiry. `Some(false)`: only if there is none.
    pub is_set: Option<bool>,
    /// How the new time must compare with the one that is set.
    pub order: Option<Order>,
}

impl ExpiryRule {
    /// Whether `new` may replace `stored`.
    pub fn allows(self, stored: Option<UnixMillis>, new: UnixMillis) -> bool {
        let in_order = match self.order {
            None => true,
            Some(Order::Later) => stored.is_some_and(|stored| new > stored),
            Some(Order::Earlier) => stored.is_none_or(|stored| new < stored),
        };
        in_order && self.is_set.is_none_or(|is_set| is_set == stored.is_some())
    }
}

/// What became of a request to set an expiry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExpiryChange {
    /// There is nothing to expire.
    Missing,
    /// The rule does not allow it.
    Refused,
    /// It is set.
    Set,
    /// The time has passed already, so what was to expire is deleted.
    Deleted,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_compares_with_what_is_set() {
        let (early, late) = (UnixMillis(1), UnixMillis(2));
        let rule = |is_set, order| ExpiryRule { is_set, order };
        let allowed = |rule: ExpiryRule| [None, Some(early), Some(late)].map(|stored| rule.allows(stored, late));
        assert_eq!(allowed(ExpiryRule::default()), [true, true, true]);
        assert_eq!(allowed(rule(Some(true), None)), [false, true, true]);
        assert_eq!(allowed(rule(Some(false), None)), [true, false, false]);
        assert_eq!(allowed(rule(None, Some(Order::Later))), [false, true, false]);
        assert!(ExpiryRule { is_set: None, order: Some(Order::Earlier) }.allows(None, early));
        assert!(!ExpiryRule { is_set: None, order: Some(Order::Earlier) }.allows(Some(early), late));
        assert!(!ExpiryRule { is_set: Some(true), order: Some(Order::Earlier) }.allows(None, early));
    }
}

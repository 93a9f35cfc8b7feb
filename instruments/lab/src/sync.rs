//! The modes of the commit log, each with the keys that it takes: `periodic:1s`, `batch`,
//! `group:5ms`. A node does not start with the key of another mode.

use std::collections::BTreeMap;
use std::time::Duration;

use cluster::CommitlogSync;

/// The factor.
pub const NAME: &str = "commitlog_sync";

/// The keys of the times. The first is a factor too, for nodes whose mode is not varied.
pub const PERIOD: &str = "commitlog_sync_period";
const WINDOW: &str = "commitlog_sync_group_window";

/// The keys of all modes.
pub(crate) const KEYS: [&str; 3] = [NAME, PERIOD, WINDOW];

/// The names that these keys had before Cassandra 4.1.
const OLD_PERIOD: &str = "commitlog_sync_period_in_ms";
const OLD_WINDOW: &str = "commitlog_sync_group_window_in_ms";

/// The value of [`NAME`] that a value of a factor means: a period is one of the mode `periodic`, which
/// the nodes have where no factor says the mode. `None` of other factors.
pub fn meant(factor: &str, value: &str) -> Option<String> {
    match factor {
        NAME => Some(value.to_owned()),
        PERIOD => Some(format!("periodic:{value}")),
        _ => None,
    }
}

/// The mode that a value means; `None` if it means none.
pub fn mode(value: &str) -> Option<CommitlogSync> {
    value.parse().ok()
}

/// What a mode needs of `cassandra.yaml`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// The keys to set, with their values.
    pub set: Vec<(&'static str, String)>,
    /// The keys that have to go.
    pub delete: Vec<&'static str>,
}

/// The keys of `cassandra.yaml` that a value means; `None` if it means no mode.
pub fn keys(value: &str) -> Option<Keys> {
    let ms = |time: Duration| format!("{}ms", time.as_millis());
    // A node does not start with a key under both of its names, or with that of another mode.
    let (name, time, mut delete) = match mode(value)? {
        CommitlogSync::Periodic { period } => ("periodic", Some((PERIOD, ms(period))), vec![WINDOW]),
        CommitlogSync::Batch => ("batch", None, vec![PERIOD, WINDOW]),
        CommitlogSync::Group { window } => ("group", Some((WINDOW, ms(window))), vec![PERIOD]),
    };
    delete.extend([OLD_PERIOD, OLD_WINDOW]);
    Some(Keys { set: std::iter::once((NAME, name.to_owned())).chain(time).collect(), delete })
}

/// What to do to `cassandra.yaml` for a value; `None` if it means no mode.
pub fn in_words(value: &str) -> Option<String> {
    let Keys { set, delete } = keys(value)?;
    let set: Vec<_> = set.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
    Some(format!("set {}; delete {}, if they are there", set.join(", "), delete.join(", ")))
}

/// What a mode loses that another one keeps; `None` if it keeps as much.
pub fn loss(value: &str, before: Option<&str>) -> Option<String> {
    let unsynced = |value: &str| match mode(value)? {
        CommitlogSync::Periodic { period } => Some(period),
        CommitlogSync::Batch | CommitlogSync::Group { .. } => Some(Duration::ZERO),
    };
    let (after, before) = (unsynced(value)?, before.and_then(unsynced).unwrap_or_default());
    let of = |time: Duration| format!("{} s", time.as_secs_f64());
    (after > before).then(|| {
        format!(
            "Durability: a node that fails may lose the acknowledged writes of the last {}; before, of {}.",
            of(after),
            of(before)
        )
    })
}

/// The value that a node has, from its settings.
pub fn of_settings(settings: &BTreeMap<String, String>) -> Option<String> {
    let mode = settings.get(NAME)?;
    let with = |key: &str| Some(format!("{mode}:{}", settings.get(key)?));
    match mode.as_str() {
        "periodic" => with(PERIOD),
        "group" => with(WINDOW),
        _ => Some(mode.clone()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_mode_has_its_own_keys_and_none_of_the_others() {
        let text = |value: &str| {
            let Keys { set, delete } = keys(value).unwrap();
            let set: Vec<_> = set.iter().map(|(key, value)| format!("{key}: {value}")).collect();
            (set.join(", "), delete.join(", "))
        };
        assert_eq!(text("periodic:2s").0, "commitlog_sync: periodic, commitlog_sync_period: 2000ms");
        let (set, delete) = text("batch");
        assert_eq!(set, "commitlog_sync: batch");
        // Under its earlier name too: a node does not start with both.
        assert_eq!(delete, format!("{PERIOD}, {WINDOW}, {PERIOD}_in_ms, {WINDOW}_in_ms"));
        assert!(text("periodic:2s").1.contains("commitlog_sync_period_in_ms"));
        assert_eq!(text("group:5ms").0, "commitlog_sync: group, commitlog_sync_group_window: 5ms");
        assert!(["", "often", "batch:1s", "group:fast"].iter().all(|wrong| keys(wrong).is_none()));
    }

    #[test]
    fn a_longer_period_loses_more_and_a_shorter_one_nothing() {
        let loss = |value: &str, before: &str| loss(value, Some(before));
        let words = loss("periodic:60s", "periodic:10000ms").unwrap();
        assert!(words.contains("writes of the last 60 s; before, of 10 s"), "{words}");
        assert!(loss("periodic:1s", "group:5ms").is_some());
        assert_eq!((loss("batch", "periodic:1s"), loss("periodic:1s", "periodic:10s")), (None, None));
    }

    #[test]
    fn what_a_node_has_is_the_value_of_its_mode() {
        let settings = |mode: &str| {
            let all = [(NAME, mode), (PERIOD, "10000ms"), (WINDOW, "5ms")];
            all.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
        };
        assert_eq!(mode(&of_settings(&settings("periodic")).unwrap()), mode("periodic:10s"));
        assert_eq!(of_settings(&settings("group")).unwrap(), "group:5ms");
        assert_eq!(of_settings(&settings("batch")).unwrap(), "batch");
        assert_eq!(of_settings(&BTreeMap::new()), None);
    }
}

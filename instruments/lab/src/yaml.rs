//! Changes keys of an operator's own `cassandra.yaml`, line by line: comments, order and all other
//! keys stay as they are.
//!
//! Only keys at the top with one plain value are changed. What a line-based change could break is
//! refused: keys with a list or a map below them, values over several lines, and keys that are there
//! twice.

use std::collections::BTreeMap;

use serde_json::Value;
use similar::TextDiff;
use thiserror::Error;

use crate::beside::Beside;
use crate::catalogue;
use crate::factor::{Applied, Setting};
use crate::plan::Plan;
use crate::sync;
use crate::value;

/// What is to be done to a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edits {
    /// Keys with their values.
    pub set: Vec<(String, String)>,
    /// Keys that have to go, if they are there: earlier names, and those of another mode.
    pub delete: Vec<String>,
    /// Keys below others, by their whole names, and keys whose values are lists or maps, with their
    /// values; and keys that have to go with one of these. They are changed by hand.
    pub below: Vec<(String, String)>,
    /// Factors of the setting that are not in this file: options of tables and of Java.
    pub elsewhere: Vec<String>,
}

/// Why a file is not changed. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum YamlError {
    /// Not keys, one a line.
    #[error(
        "line {0} does not begin a key, a comment or an entry of a list: only files with one key a line are changed"
    )]
    NoKey(usize),
    /// A second document.
    #[error("line {0} begins another document")]
    Documents(usize),
    /// A key that is there twice.
    #[error("{key} is there twice, in lines {first} and {second}: delete one")]
    Twice {
        /// The key.
        key: String,
        /// Its first line.
        first: usize,
        /// Its second line.
        second: usize,
    },
    /// A key whose value is more than one plain value.
    #[error("{key} (line {line}) has no plain value on its line: change it by hand")]
    Nested {
        /// The key.
        key: String,
        /// Its line.
        line: usize,
    },
    /// A value that is not written on one line.
    #[error("{0:?} is no value for a line of YAML")]
    Value(String),
}

/// A line at the top that is a key.
struct Key<'a> {
    name: &'a str,
    /// The number of its line, from 0.
    at: usize,
    /// What follows the colon.
    rest: &'a str,
    /// Whether other lines belong to it.
    has_more: bool,
}

/// What a setting needs of `cassandra.yaml`.
pub fn edits(plan: &Plan, setting: &Setting) -> Edits {
    let mut edits = Edits::default();
    for (name, value) in &setting.0 {
        let Some(factor) = plan.factor(name) else { continue };
        if !matches!(factor.applied(), Applied::Restart | Applied::Live) {
            edits.elsewhere.push(name.clone());
            // A table that names a memtable needs it in the file.
            let needed = plan.node.memtable(value).filter(|_| name == catalogue::MEMTABLE);
            edits.below.extend(needed.map(|needed| (format!("{name}.configurations.{value}"), needed)));
        } else if let Some(keys) = sync::meant(name, value).and_then(|mode| sync::keys(&mode)) {
            edits.set.extend(keys.set.into_iter().map(|(key, value)| (key.to_owned(), value)));
            edits.delete.extend(keys.delete.into_iter().map(str::to_owned));
        } else if name.contains('.') || is_nested(value) {
            edits.below.push((name.clone(), value.clone()));
            let needs_mode = name == catalogue::FORMAT && catalogue::needs_compatibility(value);
            let mode = plan.compatibility().filter(|_| needs_mode);
            edits.below.extend(mode.map(|mode| (catalogue::COMPATIBILITY.to_owned(), mode.to_owned())));
        } else {
            edits.set.push((name.clone(), catalogue::for_yaml(name, value)));
            edits.delete.extend(catalogue::old_name(name).map(str::to_owned));
        }
    }
    edits
}

/// Whether a value of a plan is a list or a map.
fn is_nested(value: &str) -> bool {
    matches!(serde_json::from_str(value), Ok(Value::Array(_) | Value::Object(_)))
}

/// What edits change of when the node of a file acknowledges writes, in words: a mode of the commit log
/// that the file did not have, and writes that may be lost then and were not before.
///
/// # Errors
/// The file is not keys, one a line, or has a mode that is no plain value.
pub fn commit_log(text: &str, edits: &Edits) -> Result<Vec<String>, YamlError> {
    let Some((_, to)) = edits.set.iter().find(|(name, _)| name == sync::NAME) else { return Ok(Vec::new()) };
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let keys = keys(&lines)?;
    let mut before = BTreeMap::new();
    for name in sync::KEYS {
        before.extend(value_of(&keys, name)?.map(|value| (name.to_owned(), value)));
    }
    let Some(from) = before.get(sync::NAME) else { return Ok(Vec::new()) };
    let name = sync::NAME;
    let mode = (from != to).then(|| {
        format!("{name} was {from} and becomes {to}, as it was measured: a node does not start with keys of both.")
    });
    let after: BTreeMap<_, _> = edits.set.iter().cloned().collect();
    let meant = |there: &BTreeMap<_, _>, mode: &String| sync::of_settings(there).unwrap_or_else(|| mode.clone());
    let loss = sync::loss(&meant(&after, to), Some(&meant(&before, from)));
    Ok(mode.into_iter().chain(loss).collect())
}

/// The text of a file with the edits made.
///
/// # Errors
/// A line-based change could break the file. Nothing of it is changed then.
pub fn edited(text: &str, edits: &Edits) -> Result<String, YamlError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let keys = keys(&lines)?;
    let ending = if lines.first().is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let mut changed: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    let mut added = Vec::new();
    for name in &edits.delete {
        if let Some(key) = plain(&keys, name)? {
            changed[key.at].clear();
        }
    }
    for (name, value) in &edits.set {
        let value = written(value)?;
        let Some(key) = plain(&keys, name)? else {
            let line = format!("{name}: {value}{ending}");
            match commented(&lines, name) {
                Some(at) => changed[at] = with_ending(lines[at], ending) + &line,
                None => added.push(line),
            }
            continue;
        };
        let (_, behind) = split(key.rest).ok_or_else(|| nested(key))?;
        changed[key.at] = format!("{name}: {value}{behind}");
    }
    let mut text = changed.concat();
    if !added.is_empty() && !text.is_empty() {
        text = with_ending(&text, ending);
    }
    Ok(text + &added.concat())
}

/// In what a file differs from what a setting was measured beside, in words. What the lab's node had
/// by itself differs only if the file says something else.
///
/// # Errors
/// The file is not keys, one a line.
pub fn differences(text: &str, beside: &[Beside]) -> Result<Vec<String>, YamlError> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let keys = keys(&lines)?;
    let mut all = Vec::new();
    for one in beside.iter().filter(|one| matches!(one.applied, Applied::Restart | Applied::Live)) {
        if one.name.contains('.') {
            let Beside { name, value, .. } = one;
            all.push(format!("{name} was {value}, and is not compared: it is below another key"));
            continue;
        }
        let of_mode = sync::keys(&one.value).filter(|_| one.name == sync::NAME);
        let measured = match of_mode {
            Some(of_mode) => of_mode.set.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
            None => vec![(one.name.clone(), one.value.clone())],
        };
        all.extend(measured.iter().filter_map(|(name, value)| difference(&keys, name, value, one.is_own)));
    }
    Ok(all)
}

/// In what a key differs from what it was when a setting was measured.
fn difference(keys: &[Key<'_>], name: &str, measured: &str, is_own: bool) -> Option<String> {
    match value_of(keys, name) {
        Err(error) => Some(format!("{name} was {measured}, and cannot be compared: {error}")),
        Ok(Some(found)) if value::is_in_force(Applied::Restart, measured, &found) => None,
        Ok(Some(found)) => Some(format!("{name} is {found}, and was {measured}")),
        Ok(None) if is_own => None,
        Ok(None) => Some(format!("{name} is not there, so your node has its own value, and it was {measured}")),
    }
}

/// The value of a key, under its earlier name too: such a value has no unit.
fn value_of(keys: &[Key<'_>], name: &str) -> Result<Option<String>, YamlError> {
    let old = catalogue::old_name(name).map(|old| (old, unit_of(old)));
    for (name, unit) in std::iter::once((name, "")).chain(old) {
        let Some(key) = plain(keys, name)? else { continue };
        let value = split(key.rest).map_or("", |(value, _)| value).trim_matches(['"', '\'']);
        if !["", "~", "null"].contains(&value) {
            return Ok(Some(format!("{value}{unit}")));
        }
    }
    Ok(None)
}

/// The unit that the earlier name of a key says.
fn unit_of(old: &str) -> &'static str {
    let units = [("_mb_per_sec", "MiB/s"), ("_mb", "MiB"), ("_kb", "KiB"), ("_ms", "ms")];
    units.iter().find(|(end, _)| old.ends_with(end)).map_or("", |(_, unit)| unit)
}

/// The difference of two texts of a file, as `patch` takes it; empty if there is none.
pub fn diff(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after).unified_diff().header(name, name).to_string()
}

fn with_ending(line: &str, ending: &str) -> String {
    if line.ends_with('\n') { line.to_owned() } else { format!("{line}{ending}") }
}

/// All keys at the top.
fn keys<'a>(lines: &[&'a str]) -> Result<Vec<Key<'a>>, YamlError> {
    let mut keys: Vec<Key<'_>> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let content = line.trim_end();
        if content.is_empty() || content.trim_start().starts_with('#') {
            continue;
        }
        // An entry of a list may be as far left as the key above it.
        if line.starts_with([' ', '\t']) || content == "-" || content.starts_with("- ") {
            keys.last_mut().ok_or(YamlError::NoKey(at + 1))?.has_more = true;
        } else if content == "---" {
            if !keys.is_empty() {
                return Err(YamlError::Documents(at + 1));
            }
        } else {
            let (name, rest) = line.split_once(':').ok_or(YamlError::NoKey(at + 1))?;
            let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if !is_name || !rest.starts_with(char::is_whitespace) && !rest.is_empty() {
                return Err(YamlError::NoKey(at + 1));
            }
            keys.push(Key { name, at, rest, has_more: false });
        }
    }
    Ok(keys)
}

/// The key of a name, if it is there once and can be changed.
fn plain<'a, 'b>(keys: &'b [Key<'a>], name: &str) -> Result<Option<&'b Key<'a>>, YamlError> {
    let mut found = keys.iter().filter(|key| key.name == name);
    let Some(key) = found.next() else { return Ok(None) };
    if let Some(second) = found.next() {
        return Err(YamlError::Twice { key: name.to_owned(), first: key.at + 1, second: second.at + 1 });
    }
    match key.has_more || split(key.rest).is_none() {
        true => Err(nested(key)),
        false => Ok(Some(key)),
    }
}

fn nested(key: &Key<'_>) -> YamlError {
    YamlError::Nested { key: key.name.to_owned(), line: key.at + 1 }
}

/// The value on the line of a key, and what is behind it: spaces, a comment, the end of the line.
/// `None` if the value is not plain.
fn split(rest: &str) -> Option<(&str, &str)> {
    let value = rest.trim_start_matches([' ', '\t']);
    if value.starts_with(['|', '>', '{', '[', '&', '*', '!', '%', '@', '`']) {
        return None;
    }
    let end = match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            // A quote within the value would need more than this.
            let inner = &value[1..];
            let end = inner.find(quote)? + 2;
            let behind = value[end..].trim_start_matches([' ', '\t']);
            let is_end = behind.trim().is_empty() || behind.starts_with('#') && behind.len() < value[end..].len();
            is_end.then_some(end)?
        }
        Some('#') => 0,
        _ => {
            let comment = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
            value[..comment].trim_end().len()
        }
    };
    // Where the value is empty, a comment needs a space in front of it.
    let behind = if end == 0 { rest } else { &value[end..] };
    Some((&value[..end], behind))
}

/// The line in which a key is a comment, if there is one such line: the new line is put below it.
fn commented(lines: &[&str], name: &str) -> Option<usize> {
    let is_it = |line: &&str| {
        let Some(comment) = line.strip_prefix('#') else { return false };
        comment.trim_start_matches(' ').strip_prefix(name).is_some_and(|rest| rest.starts_with(':'))
    };
    let mut found = lines.iter().enumerate().filter(|(_, line)| is_it(line));
    let (at, _) = found.next()?;
    let below = lines.get(at + 1).map_or("", |line| line.trim_end());
    // Comments below it may be a list that belongs to it.
    (found.next().is_none() && !below.starts_with("#  ") && !below.starts_with([' ', '\t'])).then_some(at)
}

/// A value on a line of YAML.
fn written(value: &str) -> Result<String, YamlError> {
    if value.is_empty() || value.trim() != value || value.contains(char::is_control) {
        return Err(YamlError::Value(value.to_owned()));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._/+".contains(c);
    match value.chars().all(|c| is_plain(c) || c == '-') && value.starts_with(is_plain) {
        true => Ok(value.to_owned()),
        false => Ok(format!("'{}'", value.replace('\'', "''"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Shaped like the file of a distribution.
    const FILE: &str = "\
# Cassandra storage config YAML

cluster_name: 'Shop'   # of the shop

# Triggers a flush.
# memtable_heap_space: 2048MiB
# memtable_offheap_space: 2048MiB

hinted_handoff_disabled_datacenters:
#    - DC1
    - DC2
seed_provider:
- class_name: org.apache.cassandra.locator.SimpleSeedProvider
  parameters:
      - seeds: \"127.0.0.1:7000\"

concurrent_reads: 32
concurrent_writes:    32 # as many as reads
initial_token:
compaction_throughput_mb_per_sec: 64
commitlog_sync: periodic
commitlog_sync_period: 10000ms
data_file_directories: [/data]
";

    fn set(pairs: &[(&str, &str)]) -> Edits {
        let set = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Edits { set, ..Edits::default() }
    }

    /// The lines that are new, and those that are gone.
    fn changed(before: &str, edits: &Edits) -> (Vec<String>, Vec<String>) {
        let after = edited(before, edits).unwrap();
        let diff = diff("cassandra.yaml", before, &after);
        let with = |sign: char, header: &str| {
            let lines = diff.lines().filter(|line| line.starts_with(sign) && !line.starts_with(header));
            lines.map(|line| line[1..].to_owned()).collect()
        };
        (with('+', "+++"), with('-', "---"))
    }

    #[test]
    fn only_the_lines_of_the_keys_change_and_their_comments_stay() {
        let edits = set(&[("concurrent_writes", "128"), ("concurrent_reads", "64"), ("initial_token", "0")]);
        let (new, old) = changed(FILE, &edits);
        assert_eq!(new, ["concurrent_reads: 64", "concurrent_writes: 128 # as many as reads", "initial_token: 0"]);
        assert_eq!(old, ["concurrent_reads: 32", "concurrent_writes:    32 # as many as reads", "initial_token:"]);
        assert_eq!(edited(FILE, &set(&[("concurrent_reads", "32")])).unwrap(), FILE);
        assert_eq!(diff("cassandra.yaml", FILE, FILE), "");
    }

    #[test]
    fn a_key_that_is_not_there_goes_below_its_comment_or_to_the_end() {
        let after = edited(FILE, &set(&[("memtable_heap_space", "1GiB"), ("trickle_fsync", "true")])).unwrap();
        assert!(
            after.contains("# memtable_heap_space: 2048MiB\nmemtable_heap_space: 1GiB\n# memtable_offheap"),
            "{after}"
        );
        assert!(after.ends_with("data_file_directories: [/data]\ntrickle_fsync: true\n"), "{after}");
        let unended = edited("a: 1", &set(&[("b", "2")])).unwrap();
        assert_eq!(unended, "a: 1\nb: 2\n");
        assert_eq!(edited("", &set(&[("b", "2")])).unwrap(), "b: 2\n");
        assert_eq!(edited("# b: 1", &set(&[("b", "2")])).unwrap(), "# b: 1\nb: 2\n");
    }

    #[test]
    fn earlier_names_and_keys_of_another_mode_are_deleted() {
        let Edits { set, delete, .. } = edits_of(&[("commitlog_sync", "batch"), ("compaction_throughput", "32MiB/s")]);
        let (new, old) = changed(FILE, &Edits { set, delete, ..Edits::default() });
        assert_eq!(new, ["commitlog_sync: batch", "compaction_throughput: 32MiB/s"]);
        let gone =
            ["compaction_throughput_mb_per_sec: 64", "commitlog_sync: periodic", "commitlog_sync_period: 10000ms"];
        assert_eq!(old, gone);
    }

    #[test]
    fn a_period_of_the_commit_log_comes_with_its_mode_and_without_the_keys_of_the_files_own() {
        let edits = edits_of(&[("commitlog_sync_period", "1s")]);
        let file = |mode: &str| FILE.replace("commitlog_sync: periodic\ncommitlog_sync_period: 10000ms\n", mode);
        let loss = "Durability: a node that fails may lose the acknowledged writes of the last 1 s; before, of 0 s.";
        for (mode, was) in [
            ("commitlog_sync: group\ncommitlog_sync_group_window: 5ms\n", "group"),
            ("commitlog_sync: group\ncommitlog_sync_group_window_in_ms: 5\n", "group"),
            ("commitlog_sync: 'batch'\n", "batch"),
        ] {
            let text = file(mode);
            let (new, old) = changed(&text, &edits);
            assert_eq!(new, ["commitlog_sync: periodic", "commitlog_sync_period: 1000ms"], "{mode}");
            assert!(mode.lines().eq(old), "{mode}");
            let said = commit_log(&text, &edits).unwrap();
            assert!(said[0].starts_with(&format!("commitlog_sync was {was} and becomes periodic")), "{said:?}");
            assert_eq!(said[1..], [loss], "{mode}");
        }
        // A file that has the mode has its period changed, and nothing is lost that was not before.
        let (new, old) = changed(FILE, &edits);
        assert_eq!(new, ["commitlog_sync_period: 1000ms"]);
        assert_eq!(old, ["commitlog_sync_period: 10000ms"]);
        assert!(commit_log(FILE, &edits).unwrap().is_empty());
        let longer = commit_log(FILE, &edits_of(&[("commitlog_sync", "periodic:60s")])).unwrap();
        assert!(longer.len() == 1 && longer[0].contains("the last 60 s; before, of 10 s"), "{longer:?}");
        assert!(commit_log("{}", &edits_of(&[("concurrent_reads", "64")])).unwrap().is_empty());
    }

    #[test]
    fn values_are_written_as_a_node_takes_them_when_it_starts() {
        let edits = edits_of(&[("compaction_throughput", "0"), ("concurrent_reads", "64")]);
        let expected = [("compaction_throughput", "0MiB/s"), ("concurrent_reads", "64")];
        assert_eq!(edits.set, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
    }

    fn edits_of(setting: &[(&str, &str)]) -> Edits {
        let plan = crate::preset::find("thesis", crate::preset::Scale::default()).unwrap();
        let mut plan = plan;
        let factor = |name: &str, value: &str| {
            serde_json::from_value(serde_json::json!({"name": name, "values": [value]})).unwrap()
        };
        plan.factors = setting.iter().map(|(name, value)| factor(name, value)).collect();
        edits(&plan, &Setting::of(setting.iter().map(|(name, value)| (*name, Some(*value)))))
    }

    #[test]
    fn options_of_tables_and_of_java_are_elsewhere_and_keys_below_others_are_for_hands() {
        let edits = edits_of(&[
            ("heap", "2048"),
            ("compression", "{'enabled': 'false'}"),
            ("concurrent_reads", "64"),
            ("memtable", "trie"),
            ("sstable.selected_format", "bti"),
        ]);
        assert_eq!(edits.elsewhere, ["compression", "heap", "memtable"]);
        let below = [
            ("memtable.configurations.trie", "{class_name: TrieMemtable}"),
            ("sstable.selected_format", "bti"),
            // A node does not start with that format alone.
            ("storage_compatibility_mode", "NONE"),
        ];
        assert_eq!(edits.below, below.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(edits.set, [("concurrent_reads".to_owned(), "64".to_owned())]);
    }

    #[test]
    fn the_way_back_leads_back_to_each_byte() {
        for text in [FILE.to_owned(), FILE.replace('\n', "\r\n"), FILE.trim_end().to_owned()] {
            let edits = edits_of(&[("commitlog_sync", "group:5ms"), ("key_cache_size", "100MiB")]);
            let after = edited(&text, &edits).unwrap();
            assert_eq!(after.matches("\r\n").count() > 0, text.contains("\r\n"));
            assert!(!after.contains("\r\n") || after.lines().count() == after.matches("\r\n").count());
            // Edits that are made twice change nothing more.
            assert_eq!(edited(&after, &edits).unwrap(), after);
            let (there, back) = (diff("a", &text, &after), diff("a", &after, &text));
            let count = |diff: &str, sign: char| diff.lines().filter(|line| line.starts_with(sign)).count();
            assert_eq!((count(&there, '+'), count(&there, '-')), (count(&back, '-'), count(&back, '+')));
        }
    }

    #[test]
    fn what_a_line_cannot_say_is_refused_with_its_line() {
        let refused = |text: &str, key: &str| edited(text, &set(&[(key, "1")])).unwrap_err();
        let nested = |key: &str, line| YamlError::Nested { key: key.to_owned(), line };
        assert_eq!(refused(FILE, "seed_provider"), nested("seed_provider", 12));
        assert_eq!(
            refused(FILE, "hinted_handoff_disabled_datacenters"),
            nested("hinted_handoff_disabled_datacenters", 9)
        );
        assert_eq!(refused(FILE, "data_file_directories"), nested("data_file_directories", 23));
        for value in ["|\n  text", "&a 1", "*a", "!!int 1", "\"a\\\"b\" c", "'a", "1\n  2"] {
            assert_eq!(refused(&format!("a: 0\nkey: {value}\n"), "key"), nested("key", 2), "{value}");
        }
        let twice = YamlError::Twice { key: "a".to_owned(), first: 1, second: 3 };
        assert_eq!(refused("a: 1\nb: 2\na: 3\n", "a"), twice);
        for text in ["{\"a\": 1}\n", "\"a\": 1\n", "? a\n: 1\n", "a:1\n", "<<: *b\n", "  a: 1\n", "- a\n"] {
            assert_eq!(refused(text, "a"), YamlError::NoKey(1), "{text}");
        }
        assert_eq!(refused("---\na: 1\n---\na: 2\n", "a"), YamlError::Documents(3));
        edited("---\na: 1\n", &set(&[("a", "2")])).unwrap();
    }

    #[test]
    fn a_file_that_differs_from_what_was_measured_beside_says_in_what() {
        let beside = |name: &str, value: &str, is_own: bool, applied| {
            let (name, value) = (name.to_owned(), value.to_owned());
            Beside { name, value, is_own, applied }
        };
        let said = |name: &str, value: &str| beside(name, value, false, Applied::Restart);
        let all = [
            said("concurrent_reads", "32"),
            said("concurrent_writes", "128"),
            // Under its earlier name, which says the unit.
            said("compaction_throughput", "16MiB/s"),
            said("memtable_flush_writers", "8"),
            said("data_file_directories", "/other"),
            said("sstable.selected_format", "bti"),
            // What the node had by itself, and what is in no such file.
            beside("memtable_heap_space", "247MiB", true, Applied::Restart),
            beside("commitlog_sync", "periodic:1000ms", true, Applied::Restart),
            beside("heap", "1024", false, Applied::Heap),
        ];
        let found = differences(FILE, &all).unwrap();
        let expected = [
            "concurrent_writes is 32, and was 128",
            "compaction_throughput is 64MiB/s, and was 16MiB/s",
            "memtable_flush_writers is not there, so your node has its own value, and it was 8",
            "data_file_directories was /other, and cannot be compared: data_file_directories (line 23) has no plain \
             value on its line: change it by hand",
            "sstable.selected_format was bti, and is not compared: it is below another key",
            "commitlog_sync_period is 10000ms, and was 1000ms",
        ];
        assert_eq!(found, expected);
        assert!(differences(FILE, &[said("compaction_throughput", "64MiB/s")]).unwrap().is_empty());
        assert_eq!(differences("- a\n", &all), Err(YamlError::NoKey(1)));
    }

    #[test]
    fn a_value_that_is_not_plain_is_quoted() {
        for (value, expected) in [("64MiB/s", "64MiB/s"), ("-1", "'-1'"), ("it's: x", "'it''s: x'"), ("a #b", "'a #b'")]
        {
            assert_eq!(written(value).unwrap(), expected);
        }
        for value in ["", " a", "a\nb: 1"] {
            assert_eq!(written(value), Err(YamlError::Value(value.to_owned())));
        }
    }

    #[test]
    fn the_value_on_a_line_ends_before_its_comment() {
        for (rest, expected) in [
            (" 32\n", ("32", "\n")),
            (" 32 # a\n", ("32", " # a\n")),
            (" a#b\r\n", ("a#b", "\r\n")),
            (" 'a # b' # c\n", ("'a # b'", " # c\n")),
            ("\n", ("", "\n")),
            (" # a\n", ("", " # a\n")),
        ] {
            assert_eq!(split(rest), Some(expected), "{rest:?}");
        }
    }
}

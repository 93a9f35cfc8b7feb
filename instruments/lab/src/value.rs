//! Whether two texts are the same value of a setting: `1GiB` is `1024MiB`.

use std::collections::BTreeMap;

use crate::catalogue;
use crate::deployment::{self, Levels};
use crate::factor::Applied;

/// Sizes and rates, largest first, because `B` ends all of them.
const UNITS: [(&str, f64); 5] =
    [("GiB", 1_073_741_824.0), ("MiB", 1_048_576.0), ("KiB", 1_024.0), ("kB", 1e3), ("B", 1.0)];

/// Times in milliseconds, the longest name first.
const TIMES: [(&str, f64); 4] = [("ms", 1.0), ("s", 1e3), ("m", 6e4), ("h", 3.6e6)];

/// The bytes of a size or of a rate per second; `None` if it is none.
pub fn bytes(text: &str) -> Option<f64> {
    let text = text.trim();
    let size = text.strip_suffix("/s").unwrap_or(text);
    if let Ok(0.0) = size.parse::<f64>() {
        return Some(0.0);
    }
    quantity(size, &UNITS)
}

fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    units.iter().find_map(|(unit, times)| Some(text.strip_suffix(unit)?.trim().parse::<f64>().ok()? * times))
}

/// A number for an axis: of a number, a size, a rate or a time. `None` if the value is none.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    text.parse().ok().or_else(|| bytes(text)).or_else(|| quantity(text, &TIMES))
}

/// Whether the value that was read back is the one that was asked for.
pub fn is_in_force(applied: Applied, asked: &str, read: &str) -> bool {
    match applied {
        Applied::Restart | Applied::Live | Applied::Heap | Applied::Setting => {
            is_same_text(asked, read) || is_same_number(number(asked), number(read)) || is_same_mode(asked, read)
        }
        Applied::Table => has_options(asked, read),
        Applied::Cluster => is_same_number(number(asked), number(read)) || deployment::are_in_force(asked, read),
        Applied::Keyspace => {
            is_same_text(asked, read) || is_same_number(number(asked), number(read)) || is_same_level(asked, read)
        }
        Applied::Jvm => asked.split_whitespace().all(|option| read.split_whitespace().any(|found| found == option)),
    }
}

fn is_same_text(asked: &str, read: &str) -> bool {
    asked.trim().eq_ignore_ascii_case(read.trim())
}

/// Of the commit log: `periodic:10s` is `periodic:10000ms`.
fn is_same_mode(asked: &str, read: &str) -> bool {
    let (asked, read) = (crate::sync::mode(asked), crate::sync::mode(read));
    asked.is_some() && asked == read
}

/// Of clients: `one` is `ONE/ONE`.
fn is_same_level(asked: &str, read: &str) -> bool {
    let (asked, read) = (Levels::parse(asked), Levels::parse(read));
    asked.is_some() && asked == read
}

fn is_same_number(asked: Option<f64>, read: Option<f64>) -> bool {
    let (Some(asked), Some(read)) = (asked, read) else { return false };
    // Some settings are single-precision numbers.
    (asked - read).abs() <= 1e-6 * asked.abs().max(read.abs())
}

/// Whether a table has all options that were asked for. It has more, with defaults. Names of
/// classes may be given without their package.
fn has_options(asked: &str, read: &str) -> bool {
    let (Some(asked), Some(read)) = (map(asked), map(read)) else { return is_same_text(asked, read) };
    asked.iter().all(|(key, value)| {
        let Some(found) = read.get(key) else { return false };
        let name = if key == "class" { found.rsplit('.').next().unwrap_or(found) } else { found };
        value == found || value == name
    })
}

/// A map of CQL with texts, numbers and truth values, as texts: Cassandra keeps all of them so.
fn map(cql: &str) -> Option<BTreeMap<String, String>> {
    let map: BTreeMap<String, serde_json::Value> = serde_json::from_str(&cql.replace('\'', "\"")).ok()?;
    let text = |value| match value {
        serde_json::Value::String(text) => Some(text),
        serde_json::Value::Number(number) => Some(number.to_string()),
        serde_json::Value::Bool(is_true) => Some(is_true.to_string()),
        _ => None,
    };
    map.into_iter().map(|(key, value)| Some((key, text(value)?))).collect()
}

/// The value of an option of a table as CQL; `None` if it is none. So nothing else of a plan reaches
/// a statement.
pub fn option(name: &str, value: &str) -> Option<String> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    match name {
        catalogue::MEMTABLE => (!value.is_empty() && value.bytes().all(is_letter)).then(|| format!("'{value}'")),
        _ => options(value),
    }
}

/// The options of a table as CQL, with every text in quotes; `None` if the value is no flat map.
fn options(cql: &str) -> Option<String> {
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let pairs: Vec<_> = map(cql)?.iter().map(|(key, value)| format!("{}: {}", quoted(key), quoted(value))).collect();
    Some(format!("{{{}}}", pairs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_same_in_other_units() {
        for (asked, read) in [
            ("1GiB", "1024MiB"),
            ("24MiB/s", "24MiB/s"),
            ("0.14", "0.14000000059604645"),
            ("true", "TRUE"),
            ("2", "2"),
            ("periodic:10s", "periodic:10000ms"),
        ] {
            assert!(is_in_force(Applied::Restart, asked, read), "{asked} {read}");
        }
        for (asked, read) in [
            ("24MiB/s", "64MiB/s"),
            ("2", "4"),
            ("mmap", "standard"),
            ("256MiB", "247MiB"),
            ("group:5ms", "group:6ms"),
            ("batch", "periodic:1s"),
        ] {
            assert!(!is_in_force(Applied::Restart, asked, read), "{asked} {read}");
        }
    }

    #[test]
    fn a_table_may_have_more_options_than_were_asked_for() {
        let read = "{'class': 'org.apache.cassandra.db.compaction.LeveledCompactionStrategy', 'fanout_size': '10'}";
        assert!(is_in_force(Applied::Table, "{'class': 'LeveledCompactionStrategy'}", read));
        assert!(!is_in_force(Applied::Table, "{'class': 'UnifiedCompactionStrategy'}", read));
        assert!(!is_in_force(Applied::Table, "{'class': 'LeveledCompactionStrategy', 'fanout_size': '8'}", read));
    }

    #[test]
    fn options_of_tables_are_flat_maps_and_their_numbers_are_texts() {
        let read = "{'chunk_length_in_kb': '16', 'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}";
        assert!(is_in_force(Applied::Table, "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}", read));
        assert!(!is_in_force(Applied::Table, "{'class': 'LZ4Compressor', 'chunk_length_in_kb': 32}", read));
        assert_eq!(options("{'b': 16, 'a': true}").as_deref(), Some("{'a': 'true', 'b': '16'}"));
        for wrong in ["{'a': 'b'} AND comment = 'c'", "{'a': {'b': 'c'}}", "LeveledCompactionStrategy", "{'a': 'b"] {
            assert_eq!(options(wrong), None, "{wrong}");
        }
        // That of memtables is a name.
        assert_eq!(option("memtable", "trie").as_deref(), Some("'trie'"));
        assert!(["", "Trie", "{'class': 'x'}", "a' OR 'b"].iter().all(|wrong| option("memtable", wrong).is_none()));
        assert!(is_in_force(Applied::Table, "trie", "trie") && !is_in_force(Applied::Table, "trie", "default"));
    }

    #[test]
    fn every_option_of_java_has_to_be_there() {
        let read = "java -Xmx1g -XX:-UseSerialGC -XX:+UseG1GC org.Main";
        assert!(is_in_force(Applied::Jvm, "-XX:-UseSerialGC -XX:+UseG1GC", read));
        assert!(!is_in_force(Applied::Jvm, "-XX:+UseZGC", read));
    }

    #[test]
    fn rates_of_zero_are_unlimited_and_have_no_unit() {
        assert_eq!(bytes("0"), Some(0.0));
        assert_eq!(bytes("0MiB/s"), Some(0.0));
        assert_eq!(bytes("1.5KiB"), Some(1536.0));
        assert_eq!(bytes("many"), None);
        assert_eq!(number("10s"), Some(10_000.0));
    }
}

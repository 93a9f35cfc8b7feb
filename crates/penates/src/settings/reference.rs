//! `docs/configuration.md` lists every setting with its default, and no others.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::Settings;

/// Rows of the tables: `section.key` and its default, as documented.
fn documented() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(path).unwrap();
    let settings = text.lines().filter_map(|line| {
        let (key, rest) = line.strip_prefix("| `")?.split_once("` | ")?;
        let (default, _) = rest.split_once(" | ")?;
        Some((key.to_owned(), default.trim_matches('`').to_owned()))
    });
    settings.collect()
}

/// `section.key` of every setting, and its default in the notation of the document.
fn declared() -> BTreeMap<String, String> {
    let settings = Settings::default().values().into_iter().flat_map(|(section, values)| {
        let values = values.as_object().unwrap().clone();
        values.into_iter().map(move |(key, value)| (format!("{section}.{key}"), written(&value)))
    });
    settings.collect()
}

/// A dash if nothing is set.
fn written(value: &Value) -> String {
    match value {
        Value::Null => "–".to_owned(),
        Value::String(text) if text.is_empty() => "–".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[test]
fn the_reference_has_every_setting_with_its_default_and_no_other() {
    let (documented, declared) = (documented(), declared());
    assert!(declared.len() > 50, "{declared:?}");
    assert_eq!(documented, declared);
}

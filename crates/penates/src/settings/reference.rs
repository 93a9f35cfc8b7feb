//! The reference of all settings. Names, meanings and defaults are those of the code.

use bytesize::ByteSize;
use serde_json::Value;

use super::Settings;

/// A section with its settings.
pub struct Section {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// Its settings, in the order of the code.
    pub settings: Vec<Known>,
}

/// A setting.
pub struct Known {
    /// Its name within the section.
    pub name: &'static str,
    /// What it means, on one line (Markdown).
    pub meaning: String,
    /// Its default; null: nothing is set.
    pub default: Value,
}

/// All sections.
pub fn sections() -> Vec<Section> {
    let defaults = Settings::default().values();
    let sections = Settings::described().into_iter().map(|section| {
        let known = |(name, comment): (&'static str, &str)| {
            // A field without a value is no setting.
            let default = defaults.get(section.name)?.get(name)?.clone();
            Some(Known { name, meaning: comment.split_whitespace().collect::<Vec<_>>().join(" "), default })
        };
        let settings = section.settings.into_iter().filter_map(known).collect();
        Section { name: section.name, about: section.about, settings }
    });
    sections.collect()
}

/// The reference, as Markdown.
pub fn reference() -> String {
    let sections = sections();
    let section = |section: &Section| format!("## {}\n\n{}\n\n{}", section.name, section.about, section.table());
    sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

impl Section {
    /// Its settings as a table of Markdown.
    pub fn table(&self) -> String {
        let heading = "| setting | default | form | meaning |\n|---|---|---|---|\n".to_owned();
        self.settings.iter().fold(heading, |table, setting| {
            let Known { name, meaning, default } = setting;
            let row = format!("| `{}.{name}` | {} | {} | {meaning} |\n", self.name, shown(default), form(default));
            table + &row
        })
    }
}

/// A default; a dash if nothing is set.
fn shown(default: &Value) -> String {
    match default {
        Value::Null => "–".to_owned(),
        Value::String(text) if text.is_empty() => "–".to_owned(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    }
}

/// How the values of a setting are written, by its default.
fn form(default: &Value) -> &'static str {
    match default {
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        Value::String(text) if text.parse::<humantime::Duration>().is_ok() => "time",
        Value::String(text) if text.ends_with('B') && text.parse::<ByteSize>().is_ok() => "size",
        _ => "text",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_has_a_meaning() {
        let sections = sections();
        let values = Settings::default().values();
        assert_eq!(sections.len(), values.len());
        for section in &sections {
            let known: Vec<_> = section.settings.iter().map(|setting| setting.name).collect();
            let missing = values[section.name]
                .as_object()
                .into_iter()
                .flatten()
                .find(|(name, _)| !known.contains(&name.as_str()));
            assert_eq!(missing, None, "of [{}]", section.name);
            assert!(!section.about.is_empty(), "[{}]", section.name);
            for setting in &section.settings {
                let meaning = &setting.meaning;
                let is_sentence = meaning.starts_with(char::is_uppercase) && meaning.ends_with(['.', ')']);
                assert!(is_sentence && !meaning.contains('|'), "{}.{}: {meaning}", section.name, setting.name);
            }
        }
    }

    #[test]
    fn the_form_of_a_value_follows_from_its_default() {
        let defaults = ["1day", "0s", "64MiB", "0B", "660", "data", "auto"];
        let forms = defaults.map(|default| form(&Value::from(default)));
        assert_eq!(forms, ["time", "time", "size", "size", "text", "text", "text"]);
        assert_eq!(
            [form(&Value::from(1)), form(&Value::from(true)), form(&Value::Null)],
            ["number", "boolean", "text"]
        );
    }
}

//! A sample configuration: every setting with its meaning and its default.

use serde_json::Value;

use super::Setting;
use super::reference::{Known, sections};

/// The longest line of a comment.
const COLUMNS_MAX: usize = 96;

/// What a secret is printed as.
const HIDDEN: &str = "(hidden)";

/// The text of the sample (TOML). Each setting is a comment, except those that are set.
pub fn sample(set: &[Setting]) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "# The settings of Penates {version} with their defaults. To change one, delete the `#` in front of it.\n"
    );
    for section in sections() {
        text.push_str(&format!("\n[{}]\n", section.name));
        for Known { name, meaning, default } in section.settings {
            let key = format!("{}.{name}", section.name);
            let own = set.iter().find(|setting| setting.key == key).and_then(|setting| written(&setting.value));
            text.push_str(&comment(&plain(&meaning)));
            text.push_str(&match (own, written(&default)) {
                (Some(value), _) if value.contains(HIDDEN) => format!("# {name} is set, and not printed.\n"),
                (Some(value), _) => format!("{name} = {value}\n"),
                (None, Some(value)) => format!("#{name} = {value}\n"),
                (None, None) => format!("# {name} is not set.\n"),
            });
        }
    }
    text
}

/// A value in TOML; `None`: nothing is set.
fn written(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        // In these, TOML and JSON agree.
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(values) => format!("[{}]", values.iter().filter_map(written).collect::<Vec<_>>().join(", ")),
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, value)| Some(format!("{name} = {}", written(value)?)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
    })
}

/// Text without the links of Markdown.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, link)) = rest.split_once('[') {
        let Some((label, target)) = link.split_once("](") else { break };
        let Some((_, after)) = target.split_once(')') else { break };
        plain.push_str(before);
        plain.push_str(label);
        rest = after;
    }
    plain + rest
}

/// Lines of a comment.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut line = "#".to_owned();
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > COLUMNS_MAX {
            lines.push_str(&line);
            lines.push('\n');
            line = "#".to_owned();
        }
        line.push(' ');
        line.push_str(word);
    }
    lines + &line + "\n"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::settings::{Origin, Settings};

    #[test]
    fn the_sample_has_every_setting_once_and_its_values_are_the_defaults() {
        let sample = sample(&[]);
        let mut uncommented = String::new();
        let mut unset = Vec::new();
        for line in sample.lines() {
            match (line.strip_prefix("# ").and_then(|line| line.strip_suffix(" is not set.")), line.strip_prefix('#')) {
                (Some(name), _) => unset.push(name.to_owned()),
                (None, Some(setting)) if !setting.starts_with(' ') => uncommented.push_str(&format!("{setting}\n")),
                (None, Some(_)) => {}
                (None, None) => uncommented.push_str(&format!("{line}\n")),
            }
        }
        let parsed: toml::Table = uncommented.parse().unwrap();
        let mut settings = serde_json::to_value(parsed).unwrap();
        for (section, values) in Settings::default().values() {
            for (name, value) in values.as_object().unwrap() {
                match value {
                    Value::Null => assert!(unset.contains(name), "{section}.{name}"),
                    value => assert_eq!(settings[&section][name].take(), *value, "{section}.{name}"),
                }
            }
        }
        assert_eq!(
            sample.parse::<toml::Table>().unwrap().values().map(|of| of.as_table().unwrap().len()).sum::<usize>(),
            0
        );
    }

    #[test]
    fn what_is_set_is_in_force_in_the_sample_and_secrets_are_not_printed() {
        let webhook = serde_json::json!({"name": "a", "url": "https://a.example/", "secret": HIDDEN, "path": ""});
        let tree = serde_json::json!({"path": "tmp", "resources": "none", "other": null});
        let set = [
            ("history.trees", serde_json::json!([tree])),
            ("listen.tls", "off".into()),
            ("data.max_pages", 7.into()),
            ("feed.webhooks", serde_json::json!([webhook])),
            ("cassandra.password", HIDDEN.into()),
        ];
        let set = set.map(|(key, value)| Setting { key: key.to_owned(), value, origin: Origin::Flag });
        let sample = sample(&set);
        let parsed = serde_json::to_value(sample.parse::<toml::Table>().unwrap()).unwrap();
        assert_eq!(parsed["history"], serde_json::json!({"trees": [{"path": "tmp", "resources": "none"}]}));
        assert_eq!(parsed["listen"], serde_json::json!({"tls": "off"}));
        assert_eq!(parsed["data"], serde_json::json!({"max_pages": 7}));
        assert_eq!([&parsed["feed"], &parsed["cassandra"]], [&serde_json::json!({}); 2]);
        for name in ["webhooks", "password"] {
            assert!(sample.contains(&format!("# {name} is set, and not printed.")), "{sample}");
        }
    }

    #[test]
    fn links_are_left_out_and_long_comments_are_broken() {
        assert_eq!(plain("see [the guide](records.md#a) and `[store]`"), "see the guide and `[store]`");
        assert!(comment(&"word ".repeat(60)).lines().all(|line| line.len() <= COLUMNS_MAX && line.starts_with("# ")));
    }
}

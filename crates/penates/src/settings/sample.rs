//! A sample configuration: every setting with its meaning and its default. The meanings are those
//! of `docs/configuration.md`, which a test compares with the code.

use serde_json::Value;

use super::Settings;

/// The reference of all settings.
const REFERENCE: &str = include_str!("../../../../docs/configuration.md");

/// The longest line of a comment.
const COLUMNS_MAX: usize = 96;

/// The text of the sample (TOML). Each setting is a comment.
pub fn sample() -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "# The settings of Penates {version} with their defaults. To change one, delete the `#` in front of it.\n"
    );
    let defaults = Settings::default().values();
    for (section, names) in sections() {
        text.push_str(&format!("\n[{section}]\n"));
        for (name, meaning) in names {
            let default = defaults.get(section).and_then(|values| values.get(name)).unwrap_or(&Value::Null);
            text.push_str(&comment(&plain(meaning)));
            text.push_str(&match written(default) {
                Some(value) => format!("#{name} = {value}\n"),
                None => format!("# {name} is not set.\n"),
            });
        }
    }
    text
}

/// What the reference says of each setting, by section, in its order.
fn sections() -> Vec<(&'static str, Vec<(&'static str, &'static str)>)> {
    let mut sections: Vec<(&str, Vec<(&str, &str)>)> = Vec::new();
    for line in REFERENCE.lines() {
        let row = line.strip_prefix("| `").and_then(|row| row.split_once("` | "));
        let Some((key, rest)) = row else { continue };
        let (Some((section, name)), Some((_, meaning))) = (key.split_once('.'), rest.split_once(" | ")) else {
            continue;
        };
        let meaning = meaning.trim_end_matches(" |");
        match sections.last_mut() {
            Some((last, names)) if *last == section => names.push((name, meaning)),
            _ => sections.push((section, vec![(name, meaning)])),
        }
    }
    sections
}

/// A value in TOML; `None`: nothing is set.
fn written(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Array(_) | Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        // In strings without control characters, TOML and JSON agree.
        Value::String(_) | Value::Object(_) => Some(value.to_string()),
    }
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

    #[test]
    fn the_sample_has_every_setting_once_and_its_values_are_the_defaults() {
        let sample = sample();
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
    fn links_are_left_out_and_long_comments_are_broken() {
        assert_eq!(plain("see [the guide](records.md#a) and `[store]`"), "see the guide and `[store]`");
        assert!(comment(&"word ".repeat(60)).lines().all(|line| line.len() <= COLUMNS_MAX && line.starts_with("# ")));
    }
}

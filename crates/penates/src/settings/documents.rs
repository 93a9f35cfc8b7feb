//! The files that are made of the reference: the tables of `docs/configuration.md`, and the
//! configuration of the service. `cargo xtask configuration` writes them.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use super::reference::sections;
use super::{Setting, load, sample};

/// If this variable is set, the files are written, and otherwise compared.
const WRITE: &str = "PENATES_WRITE_CONFIGURATION";

/// The first lines of the configuration of the service.
const SERVICE: &str = "\
# The configuration of the service `penates`. After a change, as root:
#   runuser -u penates -- penates config --check --config /etc/penates/penates.toml --store /var/lib/penates/data
#   systemctl reload penates
";

/// What the service sets.
const OF_SERVICE: [(&str, &str); 3] =
    [("listen.http", "127.0.0.1:8080"), ("listen.tls", "off"), ("log.format", "json")];

/// The document with the tables of all sections. Each is below the heading of its section.
fn with_tables(document: &str) -> String {
    let sections = sections();
    let (mut text, mut written) = (String::new(), Vec::new());
    let mut heading = "";
    let mut lines = document.lines().peekable();
    while let Some(line) = lines.next() {
        heading = line.strip_prefix("## ").unwrap_or(heading);
        match sections.iter().find(|section| section.name == heading) {
            Some(section) if line.starts_with("| setting |") => {
                text.push_str(&section.table());
                written.push(heading);
                while lines.next_if(|line| line.starts_with('|')).is_some() {}
            }
            _ => text.extend([line, "\n"]),
        }
    }
    for section in sections {
        assert!(written.contains(&section.name), "there is no table below the heading `## {}`", section.name);
    }
    text
}

/// The sample with what the service sets.
fn service() -> String {
    let set =
        OF_SERVICE.map(|(key, value)| Setting { key: key.to_owned(), value: value.into(), origin: load::Origin::Flag });
    format!("{SERVICE}#\n{}", sample(&set))
}

#[test]
fn the_documents_are_made_of_the_code() {
    let file = |path: &str| -> PathBuf { Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path) };
    let (reference, configuration) = (file("docs/configuration.md"), file("packaging/penates.toml"));
    let documents =
        [(with_tables(&std::fs::read_to_string(&reference).unwrap()), reference), (service(), configuration)];
    for (text, path) in documents {
        if std::env::var_os(WRITE).is_some() {
            std::fs::write(path, text).unwrap();
            continue;
        }
        let found = std::fs::read_to_string(&path).unwrap();
        let differing = text.lines().zip(found.lines()).find(|(wanted, found)| wanted != found);
        let is_same = text == found;
        assert!(is_same, "`cargo xtask configuration` writes {}: {differing:?}", path.display());
    }
}

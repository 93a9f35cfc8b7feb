//! Help, completions and manual pages; and the documents: commands, options, settings and
//! configurations that they name are those of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{CommandFactory, Parser};
use penates::cli::Cli;
use regex::Regex;

use crate::harness::*;

#[path = "guide.rs"]
pub mod operations;

/// Documents about settings, besides the operations guide. In others `data.records`, for example, is
/// a key of a plan.
const OF_SETTINGS: [&str; 6] = [
    "docs/configuration.md",
    "docs/cassandra.md",
    "docs/feed.md",
    "docs/messages.md",
    "docs/records.md",
    "docs/repository-door.md",
];

/// Names of files that look like settings, and a placeholder.
const NO_SETTINGS: [&str; 4] = ["records.hot", "records.time", "cassandra.yaml", "cassandra.key"];

/// Files that documented configurations name, in `/etc/penates`.
const SECRETS: [(&str, &str); 4] = [
    ("index.secret", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"),
    ("broker.password", "secret\n"),
    ("cassandra-password", "secret\n"),
    ("cassandra-ca.pem", "\n"),
];

/// A block of a document.
pub struct Block {
    /// The heading (of the first or the second order) that it is below.
    pub heading: String,
    /// The language that it is marked with.
    pub language: String,
    /// Its lines, without the indentation of the block.
    pub text: String,
}

/// The blocks of a document in their order, and the text between them.
fn parts(document: &str) -> (Vec<Block>, String) {
    let (mut blocks, mut between, mut heading) = (Vec::new(), String::new(), String::new());
    let (mut open, mut indent): (Option<Block>, usize) = (None, 0);
    for line in document.lines() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(language)) => {
                let language = language.to_owned();
                indent = line.len() - line.trim_start().len();
                open = Some(Block { heading: heading.clone(), language, text: String::new() });
            }
            (None, None) => {
                if let Some(title) = line.strip_prefix("## ").or_else(|| line.strip_prefix("# ")) {
                    heading = title.to_owned();
                }
                between += &format!("{line}\n");
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some(block), None) => block.text += &format!("{}\n", line.get(indent..).unwrap_or_default()),
        }
    }
    (blocks, between)
}

/// A file of the repository.
pub fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A document, given its path from the root of the repository.
fn document(path: &str) -> (Vec<Block>, String) {
    parts(&fs::read_to_string(file(path)).unwrap())
}

/// The blocks of the operations guide.
pub fn guide() -> Vec<Block> {
    parts(&operations::text()).0
}

/// The lines for systemd about Penates in the text of the operations guide.
pub fn systemctl_in_guide() -> Vec<String> {
    let spans = between_backquotes(&parts(&operations::text()).1);
    spans.into_iter().filter(|span| span.starts_with("systemctl ") && span.contains("penates")).collect()
}

/// What the operations guide quotes below a heading, up to the `...` at its end.
pub fn quoted(heading: &str) -> String {
    let is_it = |block: &Block| block.heading == heading && block.language == "text";
    let block = guide().into_iter().find(is_it).unwrap_or_else(|| panic!("{heading} quotes nothing"));
    block.text.trim_end().strip_suffix("...").unwrap().to_owned()
}

/// The paths of all documents for users.
fn documents() -> Vec<String> {
    let in_folder = |folder: &str| {
        let names = fs::read_dir(file(folder)).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let texts = names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}"));
        texts.collect::<Vec<_>>()
    };
    let folders = ["docs", "docs/guides", operations::FOLDER];
    [vec!["README.md".to_owned()]].into_iter().chain(folders.map(in_folder)).flatten().collect()
}

/// What a text has between backquotes.
fn between_backquotes(text: &str) -> Vec<String> {
    let spans = Regex::new("`([^`]+)`").unwrap();
    let one_line = |span: &str| span.split_whitespace().collect::<Vec<_>>().join(" ");
    spans.captures_iter(text).map(|span| one_line(&span[1])).collect()
}

/// The commands of this program in lines for a shell.
fn commands(lines: &str) -> Vec<Vec<String>> {
    let lines = lines.replace("\\\n", " ");
    let words = lines.lines().map(|line| shlex::split(line).unwrap_or_else(|| panic!("{line}")));
    let all = words.flat_map(|words| {
        let parts = words.split(|word| ["|", "&&", ";"].contains(&word.as_str()));
        parts.map(<[String]>::to_vec).collect::<Vec<_>>()
    });
    let ours = all.filter_map(|mut words| {
        if words.starts_with(&["runuser", "-u", "penates", "--"].map(str::to_owned)) {
            words.drain(..4);
        }
        let variables = words.iter().take_while(|word| word.contains('=')).count();
        let own = words.into_iter().skip(variables).take_while(|word| word != ">").collect::<Vec<_>>();
        own.first().is_some_and(|program| program == "penates").then_some(own)
    });
    ours.collect()
}

#[test]
fn the_index_of_the_operations_guide_leads_to_each_of_its_pages() {
    let entries = fs::read_dir(file(operations::FOLDER)).unwrap().map(|entry| entry.unwrap().file_name());
    let files: BTreeSet<_> = entries.map(|name| format!("{}/{}", operations::FOLDER, name.to_str().unwrap())).collect();
    let index = format!("{}/README.md", operations::FOLDER);
    let listed: BTreeSet<_> = operations::pages().into_iter().chain([index]).collect();
    assert_eq!(files, listed);
}

#[test]
fn every_command_in_a_block_of_a_document_can_be_given() {
    let mut found = 0;
    for path in documents() {
        for block in document(&path).0.iter().filter(|block| block.language == "sh") {
            for command in commands(&block.text) {
                let line = command.join(" ");
                let parsed = Cli::try_parse_from(command);
                assert!(parsed.is_ok(), "{path}: `{line}`: {}", parsed.unwrap_err());
                found += 1;
            }
        }
    }
    assert!(found > 50, "{found} commands");
}

#[test]
fn every_command_in_the_text_of_a_document_has_its_name_and_its_options() {
    let program = Cli::command();
    let mut found = 0;
    for path in documents() {
        for span in between_backquotes(&document(&path).1).iter().filter(|span| span.starts_with("penates ")) {
            let (mut known, mut depth) = (&program, 0);
            let words: Vec<&str> = span.split(' ').skip(1).collect();
            while let Some(next) = words.get(depth).and_then(|word| known.find_subcommand(word)) {
                (known, depth) = (next, depth + 1);
            }
            assert!(depth > 0, "{path}: `{span}`: there is no such command");
            for option in words.iter().filter_map(|word| word.strip_prefix("--")) {
                let is_it = |argument: &clap::Arg| argument.get_long() == Some(option);
                assert!(known.get_arguments().any(is_it), "{path}: `{span}`: there is no --{option}");
            }
            found += 1;
        }
    }
    assert!(found > 100, "{found} commands");
}

#[test]
fn every_setting_in_the_text_of_a_document_exists_and_its_configurations_are_accepted() {
    let reference = Ran::of(penates(&["config", "--reference"])).ends_with(0);
    let rows = Regex::new(r"(?m)^\| `([a-z_]+)\.([a-z_.]+)` \|").unwrap();
    let rows: Vec<_> = rows.captures_iter(reference.text()).collect();
    let settings: BTreeSet<String> = rows.iter().map(|row| format!("{}.{}", &row[1], &row[2])).collect();
    let sections: BTreeSet<&str> = rows.iter().map(|row| row.get(1).unwrap().as_str()).collect();
    assert!(settings.len() > 100 && sections.len() > 10, "{settings:?}");
    let sections = sections.into_iter().collect::<Vec<_>>().join("|");
    let names = Regex::new(&format!(r"(?:^|[^\w./-])((?:{sections})\.[a-z_]+)\b")).unwrap();

    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    for (name, secret) in SECRETS {
        fs::write(folder.path().join(name), secret).unwrap();
    }
    for path in operations::pages().into_iter().chain(OF_SETTINGS.map(str::to_owned)) {
        let (blocks, between) = document(&path);
        for span in between_backquotes(&between) {
            for name in names.captures_iter(&span).map(|found| found[1].to_owned()) {
                let is_known = settings.contains(&name) || NO_SETTINGS.contains(&name.as_str());
                assert!(is_known, "{path}: `{span}`: there is no setting {name}");
            }
        }
        for block in blocks.iter().filter(|block| block.language == "toml") {
            let file = folder.path().join("penates.toml");
            fs::write(&file, block.text.replace("/etc/penates", place)).unwrap();
            Ran::of(penates(&["config", "--config", file.to_str().unwrap()])).ends_with(0);
        }
    }
}

#[test]
fn the_help_names_the_exit_codes_of_the_guide_and_describes_each_command() {
    let help = Ran::of(penates(&["--help"])).ends_with(0);
    let codes = |lines: &str, form: &str| -> Vec<String> {
        Regex::new(form).unwrap().captures_iter(lines).map(|line| line[1].to_owned()).collect()
    };
    let (_, listed) = help.text().split_once("Exit codes:").unwrap();
    let listed = codes(listed, r"(?m)^ +(\d+) ");
    let of_guide = codes(&document("docs/operations/reference.md").1, r"(?m)^\| (\d+) \|");
    assert!(listed.len() > 4 && listed == of_guide, "{listed:?} and {of_guide:?}");
    let help = Ran::of(penates(&["get", "--help"])).ends_with(0);
    assert!(help.text().contains("when you give it again"), "{}", help.text());
    assert!(Ran::of(penates(&["--version"])).ends_with(0).text().starts_with("penates 0."));
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = Ran::of(penates(&["completions", shell])).ends_with(0);
        for command in ["demo", "serve", "import", "get", "verify", "synth", "audit"] {
            assert!(script.text().contains(command), "{shell}: {command}");
        }
    }
}

#[test]
fn there_is_a_manual_page_for_every_command() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("man1");
    Ran::of(penates(&["man", folder.to_str().unwrap()])).ends_with(0);
    for page in ["penates.1", "penates-import.1", "penates-get.1", "penates-token-create.1"] {
        let text = std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
    let get = std::fs::read_to_string(folder.join("penates-get.1")).unwrap();
    for output in ["Examples", "when you give it again"] {
        assert!(get.contains(output), "{get}");
    }
}

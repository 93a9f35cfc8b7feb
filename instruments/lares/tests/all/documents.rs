//! The documents of the instruments: each command that they show can be given.

use std::fs;

use crate::harness::{Ran, workspace};
use crate::lares;

#[test]
fn every_command_of_the_documents_is_known_with_its_options() {
    let folder = workspace().join("instruments");
    let mut documents = vec![folder.join("README.md")];
    documents.extend(fs::read_dir(folder.join("docs")).unwrap().map(|entry| entry.unwrap().path()));
    let mut found = 0;
    for document in documents {
        let text = fs::read_to_string(&document).unwrap().replace("\\\n", " ");
        for line in text.lines() {
            let Some(command) = line.trim().trim_start_matches("$ ").strip_prefix("lares ") else { continue };
            let words = shlex::split(command).unwrap_or_else(|| panic!("{}: {line}", document.display()));
            let words = words.iter().take_while(|word| !["|", ">", "&", "--"].contains(&word.as_str()));
            let (names, options): (Vec<_>, Vec<_>) = words.partition(|word| !word.starts_with("--"));
            if names.is_empty() {
                continue;
            }
            // The help of the command that the words lead to has all of its options.
            let depth = if names[0] == "conformance" { 1 } else { 2 };
            let path: Vec<_> = names.iter().take(depth).map(|word| word.as_str()).chain(["--help"]).collect();
            let help = Ran::of(lares(&path)).ends_with(0);
            for option in options {
                let option = option.split('=').next().unwrap();
                assert!(help.text().contains(option), "{}: `{line}`: {option}", document.display());
            }
            found += 1;
        }
    }
    assert!(found > 20, "{found} commands");
}

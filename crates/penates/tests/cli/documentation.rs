//! Help, completions and manual pages.

use crate::harness::*;

#[test]
fn the_help_names_the_exit_codes_and_describes_each_command() {
    let help = Ran::of(penates(&["--help"])).ends_with(0);
    assert!(help.text().contains("Exit codes"), "{}", help.text());
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

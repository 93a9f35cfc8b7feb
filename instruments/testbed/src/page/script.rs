//! Scripts of a page, and the data that they read.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Draws lines: uPlot.
pub(crate) const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// What charts of all pages have in common.
pub(crate) const CHARTS: &str = include_str!("../../assets/charts.js");

/// What a browser may load and run: these scripts, the styles in the page, and nothing else. If
/// `loads_scripts`, these scripts may load further ones.
pub(super) fn policy(scripts: &[&str], loads_scripts: bool) -> String {
    let mut sources: Vec<_> = scripts
        .iter()
        .map(|script| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()))))
        .collect();
    if loads_scripts {
        // A page that is opened as a file has no origin whose scripts could be allowed.
        sources.push("'strict-dynamic'".to_owned());
    }
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src {}", sources.join(" "))
}

/// JSON that is safe within a `script` element, whatever it says.
pub(crate) fn json(data: &impl Serialize) -> String {
    // Keys of maps are texts, and numbers that are not finite become `null`.
    let text = serde_json::to_string(data).unwrap_or_else(|_| "null".to_owned());
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            // Within JSON they appear in strings only.
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out.push_str(&format!("\\u{:04x}", character as u32)),
            _ => out.push(character),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::path::Path;

    use super::*;

    #[test]
    fn json_ends_no_script_and_keeps_its_text() {
        let text = "</script><!-- & \u{2028}\u{2029} \" '";
        let json = json(&text);
        assert!(!json.contains(['<', '>', '&', '\u{2028}', '\u{2029}']), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn the_files_of_uplot_are_those_that_its_readme_names() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/uplot");
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        for name in ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE"] {
            let digest = hex::encode(Sha256::digest(std::fs::read(folder.join(name)).unwrap()));
            assert!(readme.contains(&format!("{digest}  {name}")), "{name}: {digest}");
        }
    }
}

//! Scripts of a page, and the data that they read.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde::Serialize;
use sha2::{Digest, Sha256};

/// Draws charts: uPlot.
pub(super) const UPLOT: &str = include_str!("../../assets/uplot/uPlot.iife.min.js");

/// What this page does itself.
pub(super) const REPORT: &str = include_str!("../../assets/report.js");

/// What a browser may load and run: these two scripts, the styles in the page, and nothing else.
pub(super) fn policy() -> String {
    let sources: Vec<_> = [UPLOT, REPORT]
        .iter()
        .map(|script| format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()))))
        .collect();
    format!("default-src 'none'; style-src 'unsafe-inline'; script-src {}", sources.join(" "))
}

/// JSON that is safe within a `script` element, whatever it says.
pub(super) fn json(data: &impl Serialize) -> String {
    // Data of this module has neither maps nor numbers that are not finite.
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
    fn no_script_ends_its_own_element() {
        for script in [UPLOT, REPORT] {
            assert!(!script.to_lowercase().contains("</script"));
            assert!(!script.contains("<!--"));
            // A browser would replace it, and the digest in the policy would be wrong.
            assert!(!script.contains('\r'));
        }
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

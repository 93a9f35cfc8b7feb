//! Names of parameters.

/// The known name that an unknown one is, but for upper and lower case, `-` and `_`.
pub fn misspelt(name: &str, known: &[&'static str]) -> Option<&'static str> {
    if known.contains(&name) {
        return None;
    }
    let letters = |name: &str| -> Vec<u8> {
        name.bytes().filter(|byte| !matches!(byte, b'-' | b'_')).map(|byte| byte.to_ascii_lowercase()).collect()
    };
    // Any text may be a name, of the length of a body.
    let longest = known.iter().map(|known| 2 * known.len()).max().unwrap_or(0);
    let meant = (name.len() <= longest).then(|| letters(name))?;
    known.iter().copied().find(|known| letters(known) == meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_misspelt_if_only_its_case_its_hyphens_and_underscores_differ() {
        let known = ["as_of", "volumeIDs"];
        for name in ["asOf", "as-of", "AS_OF", "asof", "_as_of"] {
            assert_eq!(misspelt(name, &known), Some("as_of"), "{name}");
        }
        assert_eq!(misspelt("volume-ids", &known), Some("volumeIDs"));
        for name in ["as_of", "volumeIDs", "version", "as of", "", "__________________________"] {
            assert_eq!(misspelt(name, &known), None, "{name}");
        }
    }
}

//! Tokens of a JSON text, found without parsing.

/// Length of the first token of a JSON text, with the white space before it.
pub(super) fn token_bytes(text: &[u8]) -> usize {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b"{}[],:\"".contains(byte);
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let Some(first) = text.get(start) else { return start };
    let rest = &text[start + 1..];
    let rest_bytes = match first {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => 0,
        b'"' => string_bytes(rest),
        _ => rest.iter().position(is_end).unwrap_or(rest.len()),
    };
    start + 1 + rest_bytes
}

/// Length of a string after its first quote, the last quote included.
fn string_bytes(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |end| end + 1)
}

/// Whether a string is this name, with any escapes.
pub(super) fn names(string: &[u8], name: &str) -> bool {
    match string.contains(&b'\\') {
        false => string.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(name.as_bytes()),
        true => serde_json::from_slice::<String>(string).is_ok_and(|text| text == name),
    }
}

/// Whether the string before this text is a key: only a key has a colon after it.
pub(super) fn is_before_colon(rest: &[u8]) -> bool {
    rest.trim_ascii_start().first() == Some(&b':')
}

/// Length of the first value of a JSON text, with the white space before it; all of the text if the
/// value does not end. `None` if it is deeper than `depth_max`.
pub(super) fn value_bytes(text: &[u8], depth_max: usize) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    while at < text.len() {
        let token = &text[at..at + token_bytes(&text[at..])];
        at += token.len();
        match token.trim_ascii_start().first() {
            Some(b'{' | b'[') => depth += 1,
            Some(b'}' | b']') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return None;
        }
        if depth == 0 {
            break;
        }
    }
    Some(at)
}

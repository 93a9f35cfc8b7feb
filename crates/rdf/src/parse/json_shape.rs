//! The shape of a JSON text: what has to be known of it before it is read as JSON-LD, which is recursive, and quadratic in the worst case.

use super::{Limits, ParseError};

/// What a text holds, as far as it is as deep as it may be.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// How far objects and arrays lie inside each other.
    depth: usize,
    objects: usize,
    /// Contexts, those inside each other counted as well.
    contexts: usize,
    /// Bytes of all contexts.
    context_bytes: usize,
    /// Whether a context lies inside another one: then it belongs to a term, and is read for each object that uses the term.
    has_scoped_context: bool,
}

impl Shape {
    /// Looks at a text (or at what begins like one), up to where it is deeper than `depth_max`.
    pub(super) fn of(text: &[u8], depth_max: usize) -> Self {
        let mut shape = Self::default();
        let (mut depth, mut rest) = (0_usize, text);
        // The depth around the outermost context that is being passed.
        let mut context_around = None;
        let mut is_context_next = false;
        while !rest.is_empty() && shape.depth <= depth_max {
            let (token, after) = rest.split_at(token_bytes(rest));
            rest = after;
            let token = token.trim_ascii_start();
            if is_context_next && token != b":" {
                is_context_next = false;
                shape.has_scoped_context |= context_around.is_some();
                context_around.get_or_insert(depth);
            }
            match token.first() {
                // Only a key has a colon behind it.
                Some(b'"') if rest.trim_ascii_start().first() == Some(&b':') && names_context(token) => {
                    shape.contexts += 1;
                    is_context_next = true;
                }
                Some(b'{') => {
                    shape.objects += 1;
                    depth += 1;
                }
                Some(b'[') => depth += 1,
                Some(b'}' | b']') => depth = depth.saturating_sub(1),
                _ => {}
            }
            shape.depth = shape.depth.max(depth);
            if let Some(around) = context_around {
                shape.context_bytes += token.len();
                // Its value has ended where it began.
                context_around = Some(around).filter(|around| depth > *around);
            }
        }
        shape
    }

    /// Refuses what would take too long.
    pub(super) fn check(&self, limits: &Limits) -> Result<(), ParseError> {
        let too_large = |of, limit| Err(ParseError::TooLarge { of, limit });
        if self.depth > limits.json_depth {
            return too_large("levels of JSON", limits.json_depth);
        }
        if self.contexts > limits.json_contexts {
            return too_large("contexts", limits.json_contexts);
        }
        if self.has_scoped_context && self.objects.saturating_mul(self.context_bytes) > limits.json_scoped_bytes {
            return too_large("bytes of contexts of terms, counted for each object,", limits.json_scoped_bytes);
        }
        Ok(())
    }
}

/// Whether a string is the key of a context, however it is escaped.
fn names_context(string: &[u8]) -> bool {
    const NAME: &str = "@context";
    match string.contains(&b'\\') {
        false => string.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")) == Some(NAME.as_bytes()),
        true => serde_json::from_slice::<String>(string).is_ok_and(|text| text == NAME),
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(text: &str) -> Shape {
        Shape::of(text.as_bytes(), 64)
    }

    #[test]
    fn contexts_are_counted_with_their_bytes_however_they_are_written() {
        let of = |text: &str| {
            let Shape { contexts, context_bytes, has_scoped_context, .. } = shape(text);
            (contexts, context_bytes, has_scoped_context)
        };
        assert_eq!(of(r#"{"a": "@context", "b": ["@context"]}"#), (0, 0, false), "values are no contexts");
        assert_eq!(of(r#"{"@context" : "http://a", "b": 1}"#), (1, 10, false));
        assert_eq!(of(r#"[{"\u0040context": {"a": "b"}}, {"@context": []}]"#), (2, 11, false));
        assert!(of(r#"{"@context": {"T": {"@id": "x:", "@context": {}}}, "b": {"@context": {}}}"#).2);
        assert!(of(r#"{"@context": [{"T": {"@context": null}}]}"#).2);
    }

    #[test]
    fn a_text_is_as_deep_as_its_deepest_part_and_looked_at_no_further_than_it_may_be_deep() {
        assert_eq!((shape("[[{}], []]").depth, shape("[[{}], {}]").objects), (3, 2));
        let deep = "[".repeat(1_000);
        assert_eq!(shape(&deep).depth, 65);
    }

    #[test]
    fn what_is_no_json_has_a_shape_as_well() {
        for text in ["", "]]]", "\"@context", "{\"@context\":", "\"@context\": \"\\", "}{"] {
            let _ = shape(text);
        }
    }
}

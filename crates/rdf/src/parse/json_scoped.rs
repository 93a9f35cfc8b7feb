//! The terms of a JSON-LD text that have a context of their own. Such a context is read for each
//! value of its term, and for each `@type` that names it.

use std::collections::HashSet;

use serde_json::Value;

use super::json_tokens::{is_before_colon, names, token_bytes, value_bytes};

/// The terms with a context, of all contexts of a text.
#[derive(Debug, Default)]
pub(super) struct ScopedTerms {
    terms: HashSet<String>,
    /// Whether a term can be used without being named in the text: as the property of an index
    /// (JSON-LD 1.1, section 4.6.1).
    has_unnamed: bool,
}

impl ScopedTerms {
    /// Of a text, or of what precedes a context that is too deep or not JSON.
    pub(super) fn of(text: &[u8], depth_max: usize) -> Self {
        let mut scoped = Self::default();
        let mut at = 0;
        while at < text.len() {
            let token = &text[at..at + token_bytes(&text[at..])];
            at += token.len();
            let token = token.trim_ascii_start();
            if token.starts_with(b"\"") && is_before_colon(&text[at..]) && names(token, "@context") {
                at += token_bytes(&text[at..]);
                let Some(bytes) = value_bytes(&text[at..], depth_max) else { break };
                let Ok(context) = serde_json::from_slice::<Value>(&text[at..at + bytes]) else { break };
                scoped.add(&context);
                at += bytes;
            }
        }
        scoped
    }

    /// Whether the context of a term can be read because of a token, or of what is below it.
    pub(super) fn can_be_read_for(&self, token: &[u8]) -> bool {
        if self.terms.is_empty() || self.has_unnamed {
            return !self.terms.is_empty();
        }
        if !token.starts_with(b"\"") {
            return false;
        }
        match serde_json::from_slice::<String>(token) {
            Ok(name) => self.terms.contains(&name),
            // The parser may read what is not quite JSON.
            Err(_) => true,
        }
    }

    fn add(&mut self, context: &Value) {
        match context {
            Value::Array(contexts) => contexts.iter().for_each(|context| self.add(context)),
            Value::Object(terms) => {
                for (term, definition) in terms {
                    self.has_unnamed |= definition.get("@index").is_some();
                    if let Some(context) = definition.get("@context") {
                        self.terms.insert(term.clone());
                        self.add(context);
                    }
                }
            }
            _ => {}
        }
    }
}

//! The terms of a JSON-LD context: how long chains of their definitions are, and how much they
//! expand. The parser follows them recursively and writes each out in full.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::contexts;

/// Memory of the parser per term besides its text, roughly.
const TERM_BYTES: usize = 256;

/// Names that a definition can write out: the IRI, the type and the index of its term.
pub(super) const DEFINITION_NAMES: usize = 3;

/// Measurements of a built-in context: none of its terms leads further than to a prefix.
const BUILT_IN: Terms = Terms {
    chain: 2,
    longest_bytes: 128,
    kept_bytes: 64 * 1_024,
    bytes: contexts::LONGEST_BYTES,
    definitions: 128,
    nested: 1,
    scoped: 0,
};

/// Measurements of the terms of a context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Terms {
    /// Longest chain of definitions for one term. The contexts of a term extend its chain.
    pub(super) chain: usize,
    /// Bytes by which a name can grow.
    pub(super) longest_bytes: usize,
    /// Bytes of all definitions, written out.
    pub(super) kept_bytes: usize,
    /// Bytes of the built-in contexts that it names, and of its own text where that is known.
    pub(super) bytes: usize,
    /// All definitions, including those of contexts of terms.
    pub(super) definitions: usize,
    /// Contexts that are read together with it: those that it names, and those of its terms.
    nested: usize,
    /// The most contexts that are read for one value, because its term has a context: that, and
    /// those that are read together with it. Each is read into a copy of all that is active.
    pub(super) scoped: usize,
}

impl Terms {
    /// Of the value of `@context`.
    pub(super) fn of(context: &Value) -> Self {
        match context {
            Value::Object(terms) => Self::of_object(terms),
            Value::Array(contexts) => contexts.iter().map(Self::of).fold(Self::default(), |sum, terms| sum.with(terms)),
            Value::String(_) => BUILT_IN,
            Value::Null | Value::Bool(_) | Value::Number(_) => Self { nested: 1, ..Self::default() },
        }
    }

    /// One context, and then another that is read while it is active, and can use its terms.
    pub(super) fn with(self, other: Self) -> Self {
        let grown_bytes = self.longest_bytes.saturating_mul(other.definitions).saturating_mul(DEFINITION_NAMES);
        Self {
            chain: self.chain.max(other.chain),
            longest_bytes: self.longest_bytes.saturating_add(other.longest_bytes),
            kept_bytes: self.kept_bytes.saturating_add(other.kept_bytes).saturating_add(grown_bytes),
            bytes: self.bytes.saturating_add(other.bytes),
            definitions: self.definitions.saturating_add(other.definitions),
            nested: self.nested.saturating_add(other.nested),
            scoped: self.scoped.max(other.scoped),
        }
    }

    /// One context or another, whichever is more in each respect.
    pub(super) fn or(self, other: Self) -> Self {
        Self {
            chain: self.chain.max(other.chain),
            longest_bytes: self.longest_bytes.max(other.longest_bytes),
            kept_bytes: self.kept_bytes.max(other.kept_bytes),
            bytes: self.bytes.max(other.bytes),
            definitions: self.definitions.max(other.definitions),
            nested: self.nested.max(other.nested),
            scoped: self.scoped.max(other.scoped),
        }
    }

    fn of_object(context: &Map<String, Value>) -> Self {
        let mut sum = Self::default();
        if context.contains_key("@import") {
            sum = sum.with(BUILT_IN);
        }
        // `@vocab` and `@base` precede names; `@language` is added to texts.
        for (_, value) in context.iter().filter(|(key, _)| key.starts_with('@')) {
            let bytes = value.as_str().map_or(0, str::len);
            sum.longest_bytes = sum.longest_bytes.saturating_add(bytes);
            sum.kept_bytes = sum.kept_bytes.saturating_add(bytes);
        }
        let keywords_bytes = sum.longest_bytes;
        let (mut longest, mut of_terms) = (0_usize, Self::default());
        for definition in Definition::all_of(context) {
            let bytes = definition.bytes();
            let kept = bytes.saturating_add(keywords_bytes).saturating_mul(DEFINITION_NAMES) + TERM_BYTES;
            longest = longest.max(bytes.saturating_add(definition.scoped.unwrap_or_default().longest_bytes));
            sum.chain = sum.chain.max(definition.chain);
            sum.kept_bytes = sum.kept_bytes.saturating_add(kept);
            sum.definitions += 1;
            if let Some(scoped) = definition.scoped {
                let read = scoped.nested.saturating_add(1);
                of_terms = of_terms.with(Self { longest_bytes: 0, nested: read, scoped: read, ..scoped });
            }
        }
        sum.longest_bytes = sum.longest_bytes.saturating_add(longest);
        sum.with(of_terms)
    }
}

/// The definition of a term.
struct Definition {
    /// Bytes of the term and of the texts of its definition.
    own_bytes: usize,
    /// Bytes of the longest of the terms that it uses.
    used_bytes: usize,
    /// Length of the chain of definitions from it, itself included.
    chain: usize,
    /// Of its nested context, if it has one.
    scoped: Option<Terms>,
}

impl Definition {
    /// The greatest length of the term's IRI in bytes.
    fn bytes(&self) -> usize {
        self.own_bytes.saturating_add(self.used_bytes)
    }

    /// All definitions of a context, in linear time. Cycles are not followed: each definition in
    /// one counts as deep as all of them. The parser refuses a cycle when it has gone around it.
    fn all_of(context: &Map<String, Value>) -> Vec<Self> {
        let numbers: HashMap<&str, usize> =
            context.keys().enumerate().map(|(number, term)| (term.as_str(), number)).collect();
        let mut definitions = Vec::with_capacity(context.len());
        let mut users = vec![Vec::new(); context.len()];
        let mut open = vec![0_usize; context.len()];
        for (number, (term, value)) in context.iter().enumerate() {
            let mut texts = vec![term.as_str()];
            let mut scoped = None;
            match value {
                Value::String(text) => texts.push(text),
                Value::Object(entries) => {
                    scoped = entries.get("@context").map(Terms::of);
                    texts.extend(entries.values().filter_map(Value::as_str));
                }
                _ => {}
            }
            let own_bytes = texts.iter().map(|text| text.len()).sum();
            let chain = 1 + scoped.filter(|terms| terms.chain > 0).map_or(0, |terms| 1 + terms.chain);
            definitions.push(Self { own_bytes, used_bytes: 0, chain, scoped });
            let used = texts.iter().flat_map(|text| names_in(text)).filter_map(|name| numbers.get(name).copied());
            for used in used.filter(|used| *used != number) {
                users[used].push(number);
                open[number] += 1;
            }
        }
        let mut ready: Vec<usize> = (0..open.len()).filter(|number| open[*number] == 0).collect();
        let mut done = 0;
        while let Some(used) = ready.pop() {
            done += 1;
            let (bytes, chain) = (definitions[used].bytes(), definitions[used].chain);
            for user in std::mem::take(&mut users[used]) {
                let definition = &mut definitions[user];
                definition.used_bytes = definition.used_bytes.max(bytes);
                definition.chain = definition.chain.max(1 + chain);
                open[user] -= 1;
                if open[user] == 0 {
                    ready.push(user);
                }
            }
        }
        let in_circles = definitions.len() - done;
        if in_circles > 0 {
            for (number, definition) in definitions.iter_mut().enumerate() {
                if open[number] > 0 {
                    definition.chain = definition.chain.saturating_add(in_circles);
                }
            }
        }
        definitions
    }
}

/// The terms that a text could use: all of it, or what precedes a colon.
fn names_in(text: &str) -> impl Iterator<Item = &str> {
    let before = text.split_once(':').map(|(before, _)| before);
    // An empty prefix is skipped.
    let after_empty = text.strip_prefix(':').and_then(|rest| rest.split_once(':')).map(|(before, _)| before);
    [Some(text), before, after_empty].into_iter().flatten()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn terms(context: &str) -> Terms {
        Terms::of(&serde_json::from_str(context).unwrap())
    }

    fn chain(context: &str) -> usize {
        terms(context).chain
    }

    #[test]
    fn a_chain_is_as_long_as_the_definitions_to_follow() {
        assert_eq!(chain(r#"{"a": "http://a/", "b": "http://b/"}"#), 1);
        assert_eq!(chain(r#"{"a": "http://a/", "b": "a:b", "c": {"@id": "b:c"}}"#), 3);
        assert_eq!(chain(r#"{"a": "http://a/", "a:b": {"@id": "a:b", "@type": "@id"}}"#), 2);
        assert_eq!(chain(r#"{"a": "http://a/", "b": {"@reverse": "a:b"}, "c": {"@id": "http://c", "@type": "b"}}"#), 3);
        assert_eq!(chain(r#"[{"a": "http://a/"}, {"b": "a:b"}, null, "http://www.w3.org/ns/anno.jsonld"]"#), 2);
        assert_eq!(chain(r#"{":a:b": "x:", "a": "y:"}"#), 2);
    }

    #[test]
    fn a_context_of_a_term_adds_one_step() {
        assert_eq!(chain(r#"{"a": {"@id": "http://a", "@context": {"b": "http://b/", "c": "b:c"}}}"#), 4);
    }

    #[test]
    fn definitions_in_a_cycle_are_as_deep_as_all_of_them() {
        let around: String = (0..100).map(|n| format!(r#""t{n}": "t{}:x","#, (n + 1) % 100)).collect();
        assert!(chain(&format!("{{{around} \"u\": \"t0:y\"}}")) >= 100);
    }

    #[test]
    fn a_name_grows_by_everything_in_its_term() {
        let long = "x".repeat(1_000);
        let longest = |context: &str| terms(&context.replace("LONG", &long)).longest_bytes;
        assert!(longest(r#"{"a": "http://LONG/"}"#) >= 1_000);
        assert!(longest(r#"{"a": "http://LONG/", "b": "a:LONG"}"#) >= 2_000);
        assert!(longest(r#"[{"a": "http://LONG/"}, {"b": "a:LONG"}]"#) >= 2_000);
        assert!(longest(r#"{"@vocab": "http://LONG/"}"#) >= 1_000);
        assert!(longest(r#"{"a": "http://a/", "b": "http://b/"}"#) < 100);
        assert!(terms(&r#"{"a": "http://LONG/", "b": "a:b", "c": "a:c"}"#.replace("LONG", &long)).kept_bytes >= 9_000);
    }

    #[test]
    fn a_definition_grows_by_the_terms_of_the_contexts_around_it() {
        let long = "x".repeat(1_000);
        for context in [
            r#"[{"a": "http://LONG/"}, {"b": "a:b", "c": "a:c"}]"#,
            r#"{"a": "http://LONG/", "t": {"@id": "u:t", "@context": {"b": "a:b", "c": "a:c"}}}"#,
        ] {
            assert!(terms(&context.replace("LONG", &long)).kept_bytes >= 9_000, "{context}");
        }
    }

    #[test]
    fn contexts_are_counted_for_each_value_that_they_are_read_for() {
        let scoped = |context: &str| terms(context).scoped;
        assert_eq!(scoped(r#"[{"a": "http://a/"}, "http://www.w3.org/ns/anno.jsonld", null]"#), 0);
        assert_eq!(scoped(r#"{"a": {"@id": "u:a", "@context": {}}, "b": {"@context": {"c": "u:c"}}}"#), 1);
        assert_eq!(scoped(r#"{"a": {"@context": ["http://a", {"b": {"@context": {}}}, null]}}"#), 4);
        assert_eq!(terms(r#"{"a": {"@context": {"b": "u:b", "c": "u:c"}}}"#).definitions, 3);
    }

    #[test]
    fn a_built_in_context_is_no_larger_than_assumed() {
        for address in ["http://www.w3.org/ns/anno.jsonld", "http://www.w3.org/ns/ldp.jsonld"] {
            let text = contexts::built_in(address).unwrap().document;
            let document: Value = serde_json::from_slice(&text).unwrap();
            let found = Terms::of(&document["@context"]);
            assert_eq!(BUILT_IN.or(found), BUILT_IN, "{address}");
            assert!(text.len() <= BUILT_IN.bytes && found.definitions > 10, "{address}");
        }
    }
}

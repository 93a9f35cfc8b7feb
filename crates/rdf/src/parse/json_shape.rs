//! The shape of a JSON text, which must be known before it is read as JSON-LD. The parser is
//! recursive in contexts. It keeps a whole object, with all its names written out, until it knows
//! the object's `@id`.

use serde_json::Value;

use super::json_scoped::ScopedTerms;
use super::json_terms::{DEFINITION_NAMES, Terms};
use super::json_tokens::{is_before_colon, names, token_bytes, value_bytes};
use super::{Limits, Location, ParseError, contexts};

/// Deepest nesting of definitions of terms: a fraction of what fits on a thread's stack.
const CHAIN: usize = 64;

/// Memory of the parser, roughly, at least half of it: per bracket, key and value and per object
/// around it, and more per key. Nothing is converted before its object ends.
const TOKEN_BYTES: usize = 24;
const KEY_BYTES: usize = 96;

/// The same per event that the parser makes of them, and again per object around it without an
/// `@id`: that ends before its events become statements.
const EVENT_BYTES: usize = 96;

/// The same per statement besides its names, and that of the graph.
const STATEMENT_BYTES: usize = 368;

/// Names in a statement.
const STATEMENT_NAMES: usize = 3;

/// A byte of a name that is copied written out costs this fraction of a byte of a context's text: a
/// byte of text becomes a larger part of a definition.
const WRITTEN_OUT: usize = 64;

/// Measurements of a text. All bytes are upper bounds, and saturate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Nesting of objects and arrays.
    depth: usize,
    /// Objects and plain values.
    values: usize,
    /// Values for which the context of a term can be read. Even an empty array is one.
    scoped_values: usize,
    /// Contexts, including nested ones.
    contexts: usize,
    /// Bytes and definitions of contexts, once for each context that is read while they are active,
    /// themselves included.
    copied_bytes: usize,
    copied_definitions: usize,
    /// Of all contexts that are active at once.
    active: Terms,
    /// Number of contexts of objects that are active at once.
    context_depth: usize,
    /// Length of the longest chain from a term to its IRI.
    chain: usize,
    /// Whether some names are in another object than their own (JSON-LD 1.1, section 4.9).
    has_nests: bool,
    longest_id_bytes: usize,
    /// Bytes of names and texts that the parser builds from the text, in all.
    expanded_bytes: usize,
    /// Of the tokens, while objects are open.
    token_bytes: usize,
    /// Events, and those that wait for the end of an object, once for each.
    events: usize,
    waiting_events: usize,
    statements: usize,
    /// The further events if all terms have containers, and the further statements if these are
    /// lists.
    container_events: usize,
    list_statements: usize,
    has_containers: bool,
    has_lists: bool,
}

/// What a key means for its value.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Key {
    /// There is none, or it is that of a graph: an object here is not that of a statement.
    #[default]
    Graph,
    Id,
    /// A plain value here is a part of another value.
    Part,
    /// Any other, which can be the name of a keyword too.
    Property,
}

impl Key {
    fn of(token: &[u8]) -> Self {
        match token {
            b"\"@graph\"" => Self::Graph,
            b"\"@id\"" => Self::Id,
            b"\"@value\"" | b"\"@language\"" | b"\"@direction\"" | b"\"@index\"" => Self::Part,
            _ => Self::Property,
        }
    }
}

/// An open object or array.
#[derive(Default)]
struct Open {
    is_object: bool,
    /// Whether it is the whole text.
    is_root: bool,
    /// Objects around what is in it, itself included.
    objects: usize,
    /// The last key, or that of the array.
    key: Key,
    /// Whether it surely has an `@id`, and whether it has more than contexts and graphs.
    has_id: bool,
    has_more: bool,
    /// Events in it, at all depths.
    events: usize,
    /// Of the longest key on the path to it.
    path_bytes: usize,
    /// The same including the last key.
    key_bytes: usize,
    /// Whether a key on the path to it is a term with a context.
    is_scoped: bool,
    /// The same including the last key.
    is_key_scoped: bool,
    /// Of the longest text in it that could be its `@id`, which need not be first.
    id_bytes: usize,
    /// Values in it, at all depths.
    values: usize,
    /// Names in it that could be shortened, at all depths.
    names: usize,
    /// Its own contexts.
    own: Terms,
    /// Contexts in it, at all depths, including nested ones.
    contexts: usize,
    /// The contexts in it that are active in each other.
    active: Terms,
    context_depth: usize,
}

impl Shape {
    /// Refuses a text that would need too much time or memory.
    pub(super) fn check(text: &[u8], limits: &Limits) -> Result<(), ParseError> {
        let shape = Self::of(text, limits)?;
        let too_large = |of, limit| Err(ParseError::TooLarge { of, limit });
        if shape.contexts > limits.json_contexts {
            return too_large("contexts", limits.json_contexts);
        }
        if shape.chain > CHAIN {
            return too_large("terms of a context that lead from one to the next", CHAIN);
        }
        if shape.read_bytes() > limits.json_scoped_bytes {
            return too_large(
                "bytes of contexts, once for each value that they are read for",
                limits.json_scoped_bytes,
            );
        }
        // Most of it is built and freed again before the graph exists.
        if shape.all_expanded_bytes() > limits.expanded_bytes.saturating_mul(2) {
            return too_large("bytes once all names are written out", limits.expanded_bytes);
        }
        Ok(())
    }

    /// Levels at which the context of a term can be active.
    fn scoped_depth(&self) -> usize {
        if self.active.scoped == 0 { 0 } else { self.depth }
    }

    /// Bytes of contexts that are read or copied.
    fn read_bytes(&self) -> usize {
        let Terms { longest_bytes, scoped, bytes, definitions, .. } = self.active;
        let name_bytes = longest_bytes.saturating_mul(self.scoped_depth().max(1));
        let definition_bytes = name_bytes.saturating_mul(DEFINITION_NAMES) / WRITTEN_OUT;
        let all = |bytes: usize, count: usize| bytes.saturating_add(definition_bytes.saturating_mul(count));
        // For each value all that is active is copied for each context that is read.
        let copies = scoped.saturating_mul(self.scoped_values);
        all(self.copied_bytes, self.copied_definitions).saturating_add(copies.saturating_mul(all(bytes, definitions)))
    }

    fn all_expanded_bytes(&self) -> usize {
        let names = self.values.saturating_mul(STATEMENT_NAMES);
        let Terms { longest_bytes, kept_bytes, definitions, .. } = self.active;
        // Contexts of terms that are used inside each other make each other's names longer.
        let scoped_bytes = longest_bytes.saturating_mul(self.scoped_depth());
        let grown_bytes = scoped_bytes.saturating_mul(DEFINITION_NAMES).saturating_mul(definitions);
        let copies = self.context_depth.saturating_add(self.scoped_depth());
        let kept_bytes = kept_bytes.saturating_add(grown_bytes).saturating_mul(copies);
        let nested_bytes = if self.has_nests { self.longest_id_bytes.saturating_mul(self.values) } else { 0 };
        let further = |applies: bool, count: usize| if applies { count } else { 0 };
        let events = self.events.saturating_add(further(self.has_containers, self.container_events));
        let statements = self.statements.saturating_add(further(self.has_lists, self.list_statements));
        // The tokens are gone when the first statement is made.
        let waiting_bytes = self.waiting_events.saturating_mul(EVENT_BYTES);
        let made_bytes = waiting_bytes.saturating_add(statements.saturating_mul(STATEMENT_BYTES));
        let built_bytes = events.saturating_mul(EVENT_BYTES).saturating_add(self.token_bytes.max(made_bytes));
        [scoped_bytes.saturating_mul(names), kept_bytes, nested_bytes, built_bytes]
            .into_iter()
            .fold(self.expanded_bytes, usize::saturating_add)
    }

    /// Measures a text (or what begins like one), up to where it is too deep.
    fn of(text: &[u8], limits: &Limits) -> Result<Self, ParseError> {
        let too_deep = ParseError::TooLarge { of: "levels of JSON", limit: limits.depth };
        let scoped_terms = ScopedTerms::of(text, limits.depth);
        let mut shape = Self::default();
        let mut here = Open::default();
        let mut around: Vec<Open> = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let token = &text[at..at + token_bytes(&text[at..])];
            at += token.len();
            let token = token.trim_ascii_start();
            if let None | Some(b',' | b':') = token.first() {
                continue;
            }
            shape.token_bytes = shape.token_bytes.saturating_add(TOKEN_BYTES.saturating_mul(here.objects));
            match token.first() {
                None => {}
                Some(b'"') if here.is_object && is_before_colon(&text[at..]) => {
                    if names(token, "@context") {
                        at += token_bytes(&text[at..]);
                        let bytes = value_bytes(&text[at..], limits.depth - around.len()).ok_or(too_deep.clone())?;
                        shape.context(&mut here, text, at..at + bytes)?;
                        at += bytes;
                    } else {
                        shape.has_nests |= names(token, "@nest");
                        here.key_bytes = here.path_bytes.max(token.len());
                        here.is_key_scoped = here.is_scoped || scoped_terms.can_be_read_for(token);
                        shape.key(&mut here, token);
                    }
                }
                Some(b'{' | b'[') => {
                    if around.len() == limits.depth {
                        return Err(too_deep);
                    }
                    let is_object = token == b"{";
                    shape.opened(&mut here, is_object);
                    shape.scoped_values += usize::from(here.is_key_scoped || scoped_terms.can_be_read_for(token));
                    let (path_bytes, key_bytes) = (here.key_bytes, here.key_bytes);
                    let (is_scoped, is_key_scoped) = (here.is_key_scoped, here.is_key_scoped);
                    let inside = Open {
                        is_object,
                        is_root: around.is_empty(),
                        objects: here.objects + usize::from(is_object),
                        key: here.key,
                        path_bytes,
                        key_bytes,
                        is_scoped,
                        is_key_scoped,
                        ..Open::default()
                    };
                    around.push(std::mem::replace(&mut here, inside));
                    shape.depth = shape.depth.max(around.len());
                }
                Some(b'}' | b']') => {
                    if let Some(outer) = around.pop() {
                        let ended = std::mem::replace(&mut here, outer);
                        shape.end(ended, &mut here);
                    }
                }
                Some(first) => {
                    if *first == b'"' && here.is_object && !token.contains(&b' ') {
                        here.id_bytes = here.id_bytes.max(token.len());
                    }
                    shape.scoped_values += usize::from(here.is_key_scoped || scoped_terms.can_be_read_for(token));
                    shape.plain_value(&mut here, token);
                }
            }
        }
        while let Some(outer) = around.pop() {
            let ended = std::mem::replace(&mut here, outer);
            shape.end(ended, &mut here);
        }
        (shape.active, shape.context_depth) = (here.active, here.context_depth);
        Ok(shape)
    }

    /// A key of an object, other than that of a context.
    fn key(&mut self, here: &mut Open, token: &[u8]) {
        here.key = Key::of(token);
        here.has_more |= !matches!(here.key, Key::Graph | Key::Id);
        self.has_lists |= names(token, "@list");
        self.token_bytes = self.token_bytes.saturating_add(KEY_BYTES);
        if here.key == Key::Property {
            here.names += 1;
            // Its start and its end.
            self.count_events(here, 2);
        }
    }

    /// An object or an array in `around`.
    fn opened(&mut self, around: &mut Open, is_object: bool) {
        // A container puts a graph around an object, or makes a list or a set of an array.
        if is_object {
            self.count_events(around, 2);
            self.container_events += 4;
            if around.key != Key::Graph {
                self.value(around, 0);
            }
        } else {
            self.container_events += 2;
            self.list_statements += if around.is_object { 1 } else { 2 };
        }
    }

    /// A text, a number, a truth value or `null`.
    fn plain_value(&mut self, here: &mut Open, token: &[u8]) {
        let is_text = token.starts_with(b"\"");
        if here.is_object && matches!(here.key, Key::Id | Key::Part) {
            // No name begins like a keyword.
            here.has_id |= here.key == Key::Id && is_text && !token.starts_with(b"\"@") && !token.contains(&b'\\');
            here.names += 1;
            self.count_events(here, 1);
            self.add(token.len());
            return;
        }
        // A text can be the `@id` of an object.
        self.count_events(here, if is_text { 3 } else { 1 });
        self.container_events += if here.is_object { 2 } else { 0 };
        self.value(here, token.len());
    }

    /// A value, which can be a statement: its own text, and the keys of its property or its
    /// subject.
    fn value(&mut self, here: &mut Open, bytes: usize) {
        self.values += 1;
        here.values += 1;
        here.names += STATEMENT_NAMES;
        self.statements += 1;
        // The node of a list has a first and a rest.
        self.list_statements += if here.is_object { 2 } else { 1 };
        self.add(bytes.saturating_add(2 * here.key_bytes));
    }

    fn count_events(&mut self, here: &mut Open, count: usize) {
        self.events += count;
        here.events += count;
    }

    /// A context of an object.
    fn context(&mut self, here: &mut Open, text: &[u8], range: std::ops::Range<usize>) -> Result<(), ParseError> {
        let value = &text[range.clone()];
        let context: Value = serde_json::from_slice(value).map_err(|error| {
            let lines = value.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
            let offset = lines.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
            ParseError::syntax(
                Some(Location::of(text, range.start + offset)),
                format!("the context is not JSON: {error}"),
            )
        })?;
        let mut terms = Terms::of(&context);
        terms.bytes = terms.bytes.saturating_add(range.len());
        self.has_lists |= mentions(&context, &|text: &str| text == "@list" || contexts::has_lists(text));
        self.has_containers |= mentions(&context, &|text: &str| text == "@container" || contexts::is_built_in(text));
        let contexts = contexts_of(&context);
        self.contexts += contexts;
        self.chain = self.chain.max(terms.chain);
        here.contexts += contexts;
        here.own = here.own.with(terms);
        Ok(())
    }

    /// The end of an object or an array. Its contexts apply to all of it, also to what came before
    /// them.
    fn end(&mut self, ended: Open, around: &mut Open) {
        self.add(ended.own.longest_bytes.saturating_mul(ended.names));
        self.add(ended.id_bytes.saturating_mul(ended.values));
        self.longest_id_bytes = self.longest_id_bytes.max(ended.id_bytes);
        self.copied_bytes = self.copied_bytes.saturating_add(ended.own.bytes.saturating_mul(ended.contexts));
        self.copied_definitions =
            self.copied_definitions.saturating_add(ended.own.definitions.saturating_mul(ended.contexts));
        // One that has a graph only is not an object of its own.
        if ended.is_object && !ended.has_id && (ended.has_more || !ended.is_root) {
            self.waiting_events = self.waiting_events.saturating_add(ended.events);
        }
        around.events += ended.events;
        around.values += ended.values;
        around.names += ended.names;
        around.contexts += ended.contexts;
        around.context_depth = around.context_depth.max(ended.context_depth + usize::from(ended.own.bytes > 0));
        around.active = around.active.or(ended.own.with(ended.active));
    }

    fn add(&mut self, bytes: usize) {
        self.expanded_bytes = self.expanded_bytes.saturating_add(bytes);
    }
}

/// All contexts of the value of `@context`: itself, or those in its array, and those inside of
/// them.
fn contexts_of(context: &Value) -> usize {
    let own = context.as_array().map_or(1, |contexts| contexts.len().max(1));
    own + contexts_inside(context)
}

/// Whether such a text is anywhere in a context.
fn mentions(context: &Value, fits: &impl Fn(&str) -> bool) -> bool {
    match context {
        Value::String(text) => fits(text),
        Value::Array(values) => values.iter().any(|value| mentions(value, fits)),
        Value::Object(entries) => entries.iter().any(|(key, value)| fits(key) || mentions(value, fits)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Contexts nested in a context.
fn contexts_inside(context: &Value) -> usize {
    match context {
        Value::Object(entries) => {
            let inside = |(key, value): (&String, &Value)| match key.as_str() {
                "@context" => contexts_of(value),
                _ => contexts_inside(value),
            };
            entries.iter().map(inside).sum()
        }
        Value::Array(values) => values.iter().map(contexts_inside).sum(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn shape(text: &str) -> Shape {
        Shape::of(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn contexts_are_counted_in_any_notation() {
        let of = |text: &str| (shape(text).contexts, shape(text).active.scoped > 0);
        assert_eq!(of(r#"{"a": "@context", "b": ["@context"]}"#), (0, false), "values are no contexts");
        assert_eq!(of(r#"{"@context" : "http://a", "b": 1}"#), (1, false));
        assert_eq!(of(r#"[{"\u0040context": {"a": "b"}}, {"@context": []}]"#), (2, false));
        assert_eq!(of(r#"{"@context": {"T": {"@id": "x:", "@context": {}}}, "b": {"@context": {}}}"#), (3, true));
        assert_eq!(of(r#"{"@context": [{"T": {"@context": null}}]}"#), (2, true));
    }

    #[test]
    fn nested_contexts_are_copied_and_those_side_by_side_are_not() {
        let inner = r#"{"@context": {"b": "c:"}}"#;
        assert_eq!(shape(&format!(r#"{{"@context": {{}}, "a": {inner}}}"#)).copied_bytes, 2 * 3 + 12);
        assert_eq!(shape(&format!("[{inner}, {inner}]")).copied_bytes, 2 * 12);
    }

    /// A context with many definitions.
    fn large(definitions: usize) -> String {
        (0..definitions).map(|n| format!(r#""t{n}": "http://a/", "#)).collect()
    }

    #[test]
    fn all_active_contexts_are_counted_for_each_value_of_a_term_with_a_context() {
        let read_bytes = |text: &str| shape(text).read_bytes();
        let limits = Limits { json_scoped_bytes: 200_000, ..Limits::default() };
        let large = large(200);
        for (inner, one) in [
            (r#""T": {"@id": "http://a/b", "@context": {}}"#, r#""T": 1"#),
            (r#""T": {"@id": "http://a/b", "@context": {}}"#, r#""@type": "T""#),
            (r#""T": {"@id": "http://a/b", "@context": {}}"#, r#""T": {}"#),
            (r#""T": {"@id": "@nest", "@context": {}}"#, r#""T": []"#),
        ] {
            let text = |count: usize| {
                let values = vec![one; count].join(", ");
                format!(r#"{{"@context": {{{large} "u": "v:"}}, "http://a/b": {{"@context": {{{inner}}}, {values}}}}}"#)
            };
            assert!(read_bytes(&text(100)) > 100 * large.len(), "{one}");
            assert!(Shape::check(text(100).as_bytes(), &limits).is_err_and(|error| error.is_too_large()), "{one}");
            assert_eq!(Shape::check(text(10).as_bytes(), &limits), Ok(()), "{one}");
        }
    }

    #[test]
    fn a_built_in_context_counts_with_its_real_size_each_time_it_is_named() {
        let name = r#""http://www.w3.org/ns/anno.jsonld""#;
        let text = |names: usize, values: usize| {
            let (names, values) = (vec![name; names].join(", "), vec!["1"; values].join(", "));
            format!(r#"{{"@context": {{"T": {{"@id": "http://a/b", "@context": [{names}]}}}}, "T": [{values}]}}"#)
        };
        let one = contexts::LONGEST_BYTES;
        assert!(shape(&text(1, 1)).read_bytes() > 2 * one);
        assert!(shape(&text(10, 100)).read_bytes() > 100 * 10 * 10 * one);
        // Those that are active around the context of a term, and those that are named in an object.
        let around = format!(r#"{{"@context": [{name}, {{"T": {{"@id": "u:", "@context": {{}}}}}}], "T": [1, 2, 3]}}"#);
        assert!(shape(&around).read_bytes() > 3 * one);
        let limits = Limits { json_scoped_bytes: 1_000_000, ..Limits::default() };
        assert!(Shape::check(text(10, 100).as_bytes(), &limits).is_err_and(|error| error.is_too_large()));
        assert_eq!(Shape::check(text(1, 10).as_bytes(), &limits), Ok(()));
        assert_eq!(Shape::check(around.as_bytes(), &limits), Ok(()));
    }

    #[test]
    fn a_term_with_a_context_costs_nothing_where_it_is_not_used() {
        let page = |term: &str, of_item: &str| {
            let annotation = |n: usize| {
                format!(
                    r#"{{"id": "http://example.org/a/{n}", "type": "Annotation", "motivation": "commenting", {of_item}
                        "created": "2015-10-13T13:00:00Z", "creator": {{"type": "Person", "name": "A"}},
                        "body": [{{"type": "TextualBody", "value": "Good", "format": "text/plain"}}],
                        "target": {{"source": "http://example.org/p", "selector": {{"type": "FragmentSelector"}}}}}}"#
                )
            };
            let items = (0..1_000).map(annotation).collect::<Vec<_>>().join(", ");
            let anno = "http://www.w3.org/ns/anno.jsonld";
            format!(r#"{{"@context": ["{anno}", {{{term}}}], "type": "AnnotationPage", "items": [{items}]}}"#)
        };
        let term = r#""T": {"@id": "http://a/T", "@context": {"u": "http://a/u"}}"#;
        let check = |text: String| Shape::check(text.as_bytes(), &Limits::default());
        assert_eq!(check(page(term, "")), Ok(()));
        assert_eq!(check(page(term, r#""T": {"u": 1},"#)), Ok(()));
        let many = [r#"{"u": [1, "\u0054"]}"#; 10].join(", ");
        assert!(check(page(term, &format!(r#""\u0054": [{many}],"#))).is_err_and(|error| error.is_too_large()));
        // The values of an index are those of a property that the text does not name.
        let indexed = format!(r#"{term}, "by": {{"@id": "http://a/by", "@container": "@index", "@index": "T"}}"#);
        assert!(check(page(&indexed, "")).is_err_and(|error| error.is_too_large()));
    }

    #[test]
    fn what_is_active_is_copied_for_each_context_that_an_object_names() {
        let large = large(200);
        let names = vec![r#""http://www.w3.org/ns/ldp.jsonld""#; 50].join(", ");
        let text = format!(r#"{{"@context": {{{large} "u": "v:"}}, "http://a/b": {{"@context": [{names}]}}}}"#);
        assert!(shape(&text).read_bytes() > 50 * large.len());
    }

    #[test]
    fn definitions_grow_by_the_terms_of_contexts_around_them() {
        let long = format!(r#"{{"p": "http://{}/"}}"#, "x".repeat(1_000));
        let short: Vec<_> = (0..100).map(|n| format!(r#""t{n}": "p:{n}""#)).collect();
        let short = format!("{{{}}}", short.join(", "));
        let inside = format!(r#"{{"@context": {short}}}"#);
        assert!(shape(&format!(r#"{{"@context": [{long}, {short}]}}"#)).all_expanded_bytes() > 100_000);
        assert!(shape(&format!(r#"{{"@context": {long}, "p:q": {inside}}}"#)).all_expanded_bytes() > 100_000);
        assert!(shape(&format!(r#"[{{"@context": {long}}}, {inside}]"#)).all_expanded_bytes() < 100_000);
    }

    #[test]
    fn each_value_is_counted_however_short_it_is() {
        let limits = Limits { expanded_bytes: 100_000, ..Limits::default() };
        let list = r#"{"@context": {"p": {"@id": "http://a/p", "@container": "@list"}}, "p": ["#;
        let id = r#"{"@context": {"p": {"@id": "http://a/p", "@type": "@id"}}, "p": ["#;
        let graph = r#"{"@context": {"p": {"@id": "http://a/p", "@container": "@graph"}}, "p": ["#;
        for (start, one, most) in [
            (r#"{"http://a/p": ["#, "1,", 380),
            (r#"{"http://a/p": ["#, "{},", 290),
            (r#"{"http://a/p": {"@list": ["#, "1,", 260),
            (list, "1,", 260),
            (list, "[],", 240),
            (list, r#"{"@list":[]},"#, 200),
            (r#"{"@context": "http://www.w3.org/ns/anno.jsonld", "items": ["#, "1,", 260),
            (id, "\"\",", 280),
            (graph, "{},", 200),
        ] {
            let check = |count: usize| Shape::check(format!("{start}{}", one.repeat(count)).as_bytes(), &limits);
            assert!(check(most).is_err_and(|error| error.is_too_large()), "{start}{one}");
            assert_eq!(check(most / 5), Ok(()), "{start}{one}");
        }
    }

    #[test]
    fn what_waits_for_the_end_of_an_object_without_an_id_is_counted_again() {
        let nested = |key: &str| {
            let open = format!("{{{key}\"p\": ").repeat(20);
            format!("{open}[{}1]{}", "1,".repeat(100), "}".repeat(20))
        };
        let with_ids = shape(&nested(r#""@id": "a","#)).waiting_events;
        assert_eq!(with_ids, 0);
        for key in ["", r#""@id": "@a","#, r#""@id": "\u0040a","#, r#""@type": "a","#] {
            assert!(shape(&nested(key)).waiting_events > 20 * 100, "{key}");
        }
        assert_eq!(shape(r#"{"@context": {}, "@graph": [{"@id": "a", "p": 1}]}"#).waiting_events, 0);
        assert!(shape(r#"[{"@graph": [{"@id": "a", "p": 1}]}]"#).waiting_events > 0);
    }

    #[test]
    fn a_text_is_as_deep_as_its_deepest_part() {
        assert_eq!(shape("[[{}], []]").depth, 3);
        assert!(Shape::of("[".repeat(1_000).as_bytes(), &Limits::default()).is_err());
    }

    #[test]
    fn expansion_is_counted_for_each_name_even_before_the_context() {
        let long = "x".repeat(10_000);
        let context = format!(r#""@context": {{"a": "http://{long}/"}}"#);
        for text in [format!(r#"{{{context}, "a:p": [1, 2, 3]}}"#), format!(r#"{{"a:p": [1, 2, 3], {context}}}"#)] {
            assert!(
                (120_000..150_000).contains(&shape(&text).all_expanded_bytes()),
                "{}",
                shape(&text).all_expanded_bytes()
            );
        }
        let beside = shape(&format!(r#"[{{{context}}}, {{"a:p": [1, 2, 3]}}]"#)).all_expanded_bytes();
        assert!(beside < 50_000, "{beside}");
    }

    #[test]
    fn a_subject_is_counted_for_each_of_its_values_wherever_it_appears() {
        let long = "x".repeat(10_000);
        assert!(shape(&format!(r#"{{"p": [1, 2, 3], "@id": "{long}"}}"#)).all_expanded_bytes() > 40_000);
        assert!(shape(&format!(r#"{{"p": [1, 2, 3], "text": "a {long}"}}"#)).all_expanded_bytes() < 20_000);
        assert!(shape(&format!(r#"{{"{long}": [1, 2, 3]}}"#)).all_expanded_bytes() > 60_000);
        assert!(shape(&format!(r#"{{"p": [1, 2, 3], "@nest": {{"@id": "{long}"}}}}"#)).all_expanded_bytes() > 50_000);
    }

    #[test]
    fn a_text_that_is_not_json_has_a_shape_too() {
        for text in ["", "]]]", "\"@context", "{\"@context\":", "{\"@context\": \"\\", "}{", "{\"@context\":[}"] {
            let _ = Shape::of(text.as_bytes(), &Limits::default());
        }
    }
}

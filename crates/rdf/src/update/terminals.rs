//! The terminals of an update (SPARQL 1.1 Query, section 19.8; the numbers are those of its
//! productions), with all names written out. A text that is not made of them is refused.
//!
//! The longest match counts, as in the specification. Only two things depend on what came before
//! ([`Place`]): where declarations of names may be, and whether a `<` is less-than.

use std::borrow::Cow;
use std::collections::HashMap;

use super::source::Source;
use super::{UpdateError, too_much};
use crate::Iri;
use crate::parse::Limits;

/// Memory per declaration besides its IRI, roughly.
const DECLARATION_BYTES: usize = 64;

/// The words of updates and of their patterns, but `a`, `true` and `false`. Words of other graphs and
/// servers are refused by name later.
const WORDS: &str = "\
    BASE PREFIX INSERT DELETE DATA WHERE OPTIONAL MINUS UNION FILTER BIND AS VALUES UNDEF EXISTS NOT IN \
    SELECT DISTINCT REDUCED GROUP BY HAVING ORDER ASC DESC LIMIT OFFSET \
    LOAD CLEAR CREATE DROP ADD MOVE COPY WITH USING GRAPH SERVICE \
    COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT SEPARATOR \
    STR LANG LANGMATCHES DATATYPE BOUND IRI URI BNODE RAND ABS CEIL FLOOR ROUND CONCAT STRLEN UCASE LCASE \
    ENCODE_FOR_URI CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ \
    NOW UUID STRUUID MD5 SHA1 SHA256 SHA384 SHA512 COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK ISLITERAL \
    ISNUMERIC REGEX SUBSTR REPLACE";

/// The signs, longer ones first.
const SIGNS: [&str; 26] = [
    "^^", "||", "&&", "!=", "<=", ">=", "{", "}", "(", ")", "[", "]", ".", ",", ";", "*", "/", "|", "^", "?", "+", "-",
    "!", "=", "<", ">",
];

/// What kind of terminal it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `IRIREF` and `PrefixedName`, written out.
    Iri,
    /// `VAR1`, `VAR2`.
    Variable,
    /// `BLANK_NODE_LABEL`.
    BlankNode,
    /// A string with any quotes, without its language or type.
    Text,
    /// `LANGTAG`.
    Language,
    /// A number with its sign.
    Number,
    /// A word in capital letters; `a`, `true` and `false` in small ones.
    Word(&'static str),
    /// A bracket, a stop or an operator.
    Sign(&'static str),
}

/// A terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Terminal<'a> {
    pub(super) kind: Kind,
    /// Its only spelling: an IRI has no name and no escape, a string has double quotes and escapes
    /// only what it must.
    pub(super) text: Cow<'a, str>,
    /// Its first byte in the text of the source.
    pub(super) at: usize,
}

/// What depends on the terminals before.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Place {
    /// Whether an operation can begin here, with its declarations of names.
    pub(super) may_declare: bool,
    /// Whether a `<` is less-than, because a value of an expression ended.
    pub(super) compares: bool,
}

/// Reads the terminals of a source one by one.
pub(super) struct Terminals<'a> {
    source: &'a Source<'a>,
    text: &'a str,
    limits: &'a Limits,
    at: usize,
    base: Iri,
    prefixes: HashMap<&'a str, String>,
    /// Bytes of everything that was declared.
    declared_bytes: usize,
    /// Letters up to here are no prefix: no colon follows. They are not looked through again.
    no_prefix_until: usize,
}

impl<'a> Terminals<'a> {
    pub(super) fn new(source: &'a Source<'a>, base: &Iri, limits: &'a Limits) -> Self {
        Self {
            source,
            text: source.text(),
            limits,
            at: 0,
            base: base.clone(),
            prefixes: HashMap::new(),
            declared_bytes: 0,
            no_prefix_until: 0,
        }
    }

    /// The next terminal. Declarations of names are read and are no terminals.
    ///
    /// # Errors
    /// If there is something else, or a name is not declared, is no IRI or is too long.
    pub(super) fn next(&mut self, place: Place) -> Result<Option<Terminal<'a>>, UpdateError> {
        loop {
            self.skip_space();
            let at = self.at;
            let Some(first) = self.rest().chars().next() else { return Ok(None) };
            let (kind, text, bytes) = self.read(first, place)?;
            self.at += bytes;
            match kind {
                Kind::Word("BASE") if place.may_declare => self.declare_base()?,
                Kind::Word("PREFIX") if place.may_declare => self.declare_prefix()?,
                Kind::Word(word @ ("BASE" | "PREFIX")) => {
                    return Err(self.source.error(at, format!("{word} is possible only before an operation")));
                }
                _ => return Ok(Some(Terminal { kind, text, at })),
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// `WS` [162] and comments (section 19.4).
    fn skip_space(&mut self) {
        loop {
            let rest = self.rest();
            let space = rest.find(|c: char| !matches!(c, ' ' | '\t' | '\r' | '\n')).unwrap_or(rest.len());
            self.at += space;
            let rest = &rest[space..];
            if !rest.starts_with('#') {
                return;
            }
            self.at += rest.find(['\r', '\n']).unwrap_or(rest.len());
        }
    }

    /// What begins here, and how many bytes it has in the text.
    fn read(&mut self, first: char, place: Place) -> Result<(Kind, Cow<'a, str>, usize), UpdateError> {
        let rest = self.rest();
        let (kind, bytes) = match first {
            '<' if !place.compares => {
                let bytes = iri_bytes(rest).ok_or_else(|| self.no_iri())?;
                let iri = self.resolved(&rest[1..bytes - 1])?;
                return Ok((Kind::Iri, Cow::Owned(format!("<{iri}>")), bytes));
            }
            '"' | '\'' => {
                let (text, bytes) = self.string(first)?;
                return Ok((Kind::Text, Cow::Owned(text), bytes));
            }
            ':' => return self.name(""),
            c if is_pn_chars_base(c) => return self.name_or_word(first),
            '?' | '$' => (Kind::Variable, marked(1, variable_bytes(&rest[1..]))),
            '_' if rest.starts_with("_:") => (Kind::BlankNode, marked(2, label_bytes(&rest[2..]))),
            '@' => (Kind::Language, marked(1, language_bytes(&rest[1..]))),
            '0'..='9' | '.' | '+' | '-' => (Kind::Number, number_bytes(rest)),
            _ => (Kind::Number, 0),
        };
        if bytes == 0 {
            return self.sign(first);
        }
        self.check_length(bytes)?;
        if kind == Kind::Language && rest[bytes..].starts_with("--") {
            return Err(self.newer("a direction of a text (`--`)"));
        }
        Ok((kind, Cow::Borrowed(&rest[..bytes]), bytes))
    }

    /// A sign that is no part of another terminal.
    fn sign(&self, first: char) -> Result<(Kind, Cow<'a, str>, usize), UpdateError> {
        let rest = self.rest();
        if first == '~' {
            return Err(self.newer("a reifier (`~`)"));
        }
        if rest.starts_with("{|") || rest.starts_with("|}") {
            return Err(self.newer("an annotation (`{|`)"));
        }
        match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(&sign) => Ok((Kind::Sign(sign), Cow::Borrowed(sign), sign.len())),
            None => Err(self.source.error(self.at, format!("nothing begins with {first:?}"))),
        }
    }

    /// A `PrefixedName` [136], or a word.
    fn name_or_word(&mut self, first: char) -> Result<(Kind, Cow<'a, str>, usize), UpdateError> {
        let rest = self.rest();
        if self.at >= self.no_prefix_until {
            // `PN_PREFIX` [168] ends with no full stop.
            let end = rest.find(|c: char| c != '.' && !is_pn_chars(c)).unwrap_or(rest.len());
            let prefix = &rest[..end];
            if rest[end..].starts_with(':') && !prefix.ends_with('.') {
                return self.name(prefix);
            }
            self.no_prefix_until = self.at + end;
        }
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        if end == 0 {
            return self.sign(first);
        }
        self.check_length(end)?;
        let word = match &rest[..end] {
            "a" => Some("a"),
            word => {
                let mut known = ["true", "false"].into_iter().chain(WORDS.split_ascii_whitespace());
                known.find(|known| known.eq_ignore_ascii_case(word))
            }
        };
        let Some(word) = word else {
            let message = format!("`{:.40}` is no word of an update, and a name has a colon", &rest[..end]);
            return Err(self.source.error(self.at, message));
        };
        Ok((Kind::Word(word), Cow::Borrowed(word), end))
    }

    /// `PNAME_LN` [141] or `PNAME_NS` [140], after its prefix was found.
    fn name(&self, prefix: &str) -> Result<(Kind, Cow<'a, str>, usize), UpdateError> {
        let local = &self.rest()[prefix.len() + 1..];
        let local = &local[..local_bytes(local)];
        let bytes = prefix.len() + 1 + local.len();
        self.check_length(bytes)?;
        let Some(start) = self.prefixes.get(prefix) else {
            return Err(self.source.error(self.at, format!("the prefix `{prefix:.40}:` is not declared")));
        };
        self.check_iri_length(start.len() + local.len())?;
        let mut iri = start.clone();
        iri.extend(local.chars().filter(|c| *c != '\\'));
        let iri =
            Iri::parse(iri).map_err(|error| self.source.error(self.at, format!("the name is no IRI: {error}")))?;
        Ok((Kind::Iri, Cow::Owned(format!("<{iri}>")), bytes))
    }

    /// A string [156] to [159] in its only spelling, and its bytes in the text.
    fn string(&self, quote: char) -> Result<(String, usize), UpdateError> {
        let rest = self.rest();
        let long = [quote; 3].iter().collect::<String>();
        let (end, is_long) = if rest.starts_with(&long) { (&long[..], true) } else { (&long[..1], false) };
        let mut text = String::from("\"");
        let mut at = end.len();
        while !rest[at..].starts_with(end) {
            let mut characters = rest[at..].chars();
            let value = match characters.next() {
                Some('\\') => match characters.next().and_then(escaped) {
                    Some(value) => value,
                    None => {
                        let message = "a string has no such escape, or it is not of a code point";
                        return Err(self.source.error(self.at + at, message));
                    }
                },
                Some(c) if is_long || !matches!(c, '\n' | '\r') => c,
                _ => return Err(self.source.error(self.at, "the string does not end")),
            };
            at = rest.len() - characters.as_str().len();
            match value {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                other => text.push(other),
            }
        }
        text.push('"');
        Ok((text, at + end.len()))
    }

    /// `BaseDecl` [5], after its word.
    fn declare_base(&mut self) -> Result<(), UpdateError> {
        self.base = self.declared_iri()?;
        Ok(())
    }

    /// `PrefixDecl` [6], after its word.
    fn declare_prefix(&mut self) -> Result<(), UpdateError> {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c: char| c != '.' && !is_pn_chars(c)).unwrap_or(rest.len());
        let (prefix, after) = rest.split_at(end);
        let begins = prefix.is_empty() || prefix.starts_with(is_pn_chars_base);
        let is_alone = after.starts_with(':') && local_bytes(&after[1..]) == 0;
        if !begins || prefix.ends_with('.') || !is_alone {
            return Err(self.source.error(self.at, "after PREFIX come a prefix, a colon and an IRI"));
        }
        self.check_length(end)?;
        self.at += end + 1;
        let iri = self.declared_iri()?;
        self.prefixes.insert(prefix, iri.into_inner());
        Ok(())
    }

    /// The IRI of a declaration.
    fn declared_iri(&mut self) -> Result<Iri, UpdateError> {
        self.skip_space();
        let rest = self.rest();
        let bytes = iri_bytes(rest).ok_or_else(|| self.source.error(self.at, "an IRI in `<>` is expected"))?;
        let iri = self.resolved(&rest[1..bytes - 1])?;
        self.at += bytes;
        self.declared_bytes = self.declared_bytes.saturating_add(iri.as_str().len() + DECLARATION_BYTES);
        if self.declared_bytes > self.limits.expanded_bytes { Err(too_much(self.limits)) } else { Ok(iri) }
    }

    fn resolved(&self, iri: &str) -> Result<Iri, UpdateError> {
        self.check_iri_length(iri.len())?;
        let iri = self.base.resolve(iri).map_err(|error| self.source.error(self.at, format!("no IRI: {error}")))?;
        self.check_iri_length(iri.as_str().len())?;
        Ok(iri)
    }

    fn no_iri(&self) -> UpdateError {
        if self.rest().starts_with("<<") {
            return self.newer("a triple as a term (`<<`)");
        }
        self.source.error(self.at, "a `<` begins an IRI, or is less-than after a value in brackets")
    }

    /// The error for what only newer versions of the language have.
    fn newer(&self, what: &str) -> UpdateError {
        self.source.error(self.at, format!("{what} is of RDF 1.2 and not supported"))
    }

    fn check_length(&self, bytes: usize) -> Result<(), UpdateError> {
        let limit = self.limits.iri_bytes;
        if bytes > limit { Err(UpdateError::TooLarge { of: "bytes of one name or number", limit }) } else { Ok(()) }
    }

    fn check_iri_length(&self, bytes: usize) -> Result<(), UpdateError> {
        let limit = self.limits.iri_bytes;
        if bytes > limit { Err(UpdateError::TooLarge { of: "bytes of one IRI", limit }) } else { Ok(()) }
    }
}

/// Bytes of a terminal that begins with a mark, or none if nothing follows the mark.
fn marked(mark_bytes: usize, bytes: usize) -> usize {
    if bytes == 0 { 0 } else { mark_bytes + bytes }
}

/// `IRIREF` [139] with its brackets.
fn iri_bytes(text: &str) -> Option<usize> {
    let inside = text.strip_prefix('<')?;
    let end = inside.find(|c: char| c <= ' ' || "<>\"{}|^`\\".contains(c))?;
    inside[end..].starts_with('>').then_some(end + 2)
}

/// `VARNAME` [166].
fn variable_bytes(text: &str) -> usize {
    if !text.starts_with(is_name_start) {
        return 0;
    }
    text.find(|c: char| c == '-' || !is_pn_chars(c)).unwrap_or(text.len())
}

/// What follows `_:` in a `BLANK_NODE_LABEL` [142].
fn label_bytes(text: &str) -> usize {
    if !text.starts_with(is_name_start) {
        return 0;
    }
    let end = text.find(|c: char| c != '.' && !is_pn_chars(c)).unwrap_or(text.len());
    text[..end].trim_end_matches('.').len()
}

/// What follows `@` in a `LANGTAG` [145].
fn language_bytes(text: &str) -> usize {
    let mut end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    if end == 0 {
        return 0;
    }
    while let Some(part) = text[end..].strip_prefix('-') {
        let bytes = part.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(part.len());
        if bytes == 0 {
            break;
        }
        end += 1 + bytes;
    }
    end
}

/// `INTEGER`, `DECIMAL` and `DOUBLE` [146] to [154] with their signs.
fn number_bytes(text: &str) -> usize {
    let digits = |at: usize| text[at..].bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(text.starts_with(['+', '-']));
    let whole = sign + digits(sign);
    let fraction = if text[whole..].starts_with('.') { 1 + digits(whole + 1) } else { 0 };
    let is_double = whole > sign && fraction == 1 && exponent_bytes(&text[whole + 1..]) > 0;
    let end = if fraction > 1 || is_double { whole + fraction } else { whole };
    if end == sign { 0 } else { end + exponent_bytes(&text[end..]) }
}

/// `EXPONENT` [155].
fn exponent_bytes(text: &str) -> usize {
    let Some(power) = text.strip_prefix(['e', 'E']) else { return 0 };
    let sign = usize::from(power.starts_with(['+', '-']));
    match power[sign..].bytes().take_while(u8::is_ascii_digit).count() {
        0 => 0,
        digits => 1 + sign + digits,
    }
}

/// `PN_LOCAL` [169] with `PLX` [170] to [173].
fn local_bytes(text: &str) -> usize {
    // It ends with no full stop.
    let (mut at, mut end) = (0, 0);
    while let Some(c) = text[at..].chars().next() {
        let after = &text[at + c.len_utf8()..];
        let bytes = match c {
            '%' if after.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2 => 3,
            '\\' if after.starts_with(|c: char| "_~.-!$&'()*+,;=/?#@%".contains(c)) => 2,
            '.' if at > 0 => {
                at += 1;
                continue;
            }
            c if c == ':' || is_name_start(c) || at > 0 && is_pn_chars(c) => c.len_utf8(),
            _ => break,
        };
        at += bytes;
        end = at;
    }
    end
}

/// The character that an `ECHAR` [160] means.
fn escaped(c: char) -> Option<char> {
    Some(match c {
        't' => '\t',
        'b' => '\u{8}',
        'n' => '\n',
        'r' => '\r',
        'f' => '\u{c}',
        '"' | '\'' | '\\' => c,
        _ => return None,
    })
}

/// `PN_CHARS_BASE` [164].
fn is_pn_chars_base(c: char) -> bool {
    matches!(
        c,
        'A'..='Z'
            | 'a'..='z'
            | '\u{c0}'..='\u{d6}'
            | '\u{d8}'..='\u{f6}'
            | '\u{f8}'..='\u{2ff}'
            | '\u{370}'..='\u{37d}'
            | '\u{37f}'..='\u{1fff}'
            | '\u{200c}'..='\u{200d}'
            | '\u{2070}'..='\u{218f}'
            | '\u{2c00}'..='\u{2fef}'
            | '\u{3001}'..='\u{d7ff}'
            | '\u{f900}'..='\u{fdcf}'
            | '\u{fdf0}'..='\u{fffd}'
            | '\u{10000}'..='\u{effff}'
    )
}

/// `PN_CHARS_U` [165] or a digit: how variables, labels and local names begin.
fn is_name_start(c: char) -> bool {
    c == '_' || c.is_ascii_digit() || is_pn_chars_base(c)
}

/// `PN_CHARS` [167].
fn is_pn_chars(c: char) -> bool {
    matches!(c, '-' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}') || is_name_start(c)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::Kind::{BlankNode, Language, Number, Sign, Text, Variable, Word};
    use super::*;

    fn read(text: &str, place: Place) -> Result<Vec<(Kind, String)>, UpdateError> {
        let base = Iri::parse("http://a/b".to_owned()).unwrap();
        let (source, limits) = (Source::new(text), Limits { iri_bytes: 1_000, ..Limits::default() });
        let mut terminals = Terminals::new(&source, &base, &limits);
        let mut all = Vec::new();
        while let Some(terminal) = terminals.next(place)? {
            all.push((terminal.kind, terminal.text.into_owned()));
        }
        Ok(all)
    }

    fn terminals(text: &str) -> Vec<(Kind, String)> {
        read(text, Place { may_declare: true, compares: false }).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn iris(text: &str) -> Vec<String> {
        let of = |(kind, text): (Kind, String)| (kind == Kind::Iri).then_some(text);
        terminals(text).into_iter().filter_map(of).collect()
    }

    #[test]
    fn each_terminal_has_one_spelling() {
        for (kind, spellings) in [
            (Kind::Iri, &["<http://a/c>", "<c>", "<\\u0063>", "<//a/c>"][..]),
            (Variable, &["?x", "?1_\u{b7}"][..]),
            (Variable, &["$x"][..]),
            (BlankNode, &["_:a.-b", "_:0"][..]),
            (Text, &["'x'", "\"x\"", "'''x'''", "\"\"\"x\"\"\"", "\"\\u0078\""][..]),
            (Text, &["'a\\n\"\\'\\\\'", "'''a\n\"'\\\\'''", "\"a\\n\\\"\\'\\\\\""][..]),
            (Text, &["''", "\"\"", "''''''", "\"\"\"\"\"\""][..]),
            (Language, &["@en-GB-1"][..]),
            (Word("SELECT"), &["select", "SELECT", "SeLeCt"][..]),
            (Word("true"), &["true", "TRUE"][..]),
            (Word("a"), &["a"][..]),
        ] {
            let first = terminals(spellings[0]);
            for spelling in spellings.iter().filter(|_| kind != Variable && kind != BlankNode) {
                assert_eq!(terminals(spelling), first, "{spelling}");
            }
            for spelling in spellings {
                assert_eq!(terminals(spelling).iter().map(|(kind, _)| *kind).collect::<Vec<_>>(), [kind], "{spelling}");
            }
        }
        assert_eq!(terminals("'''a\n\"'\\\\'''"), [(Text, "\"a\\n\\\"'\\\\\"".to_owned())]);
        for number in ["1", "1.5", ".5", "1e5", "1.e5", "1.5E-3", ".5e+3", "+1", "-1.5", "+.5e3"] {
            assert_eq!(terminals(number), [(Number, number.to_owned())]);
        }
        for sign in SIGNS.into_iter().filter(|sign| !sign.starts_with('<')) {
            assert_eq!(terminals(sign), [(Sign(sign), sign.to_owned())]);
        }
        for word in WORDS.split_ascii_whitespace().filter(|word| !["BASE", "PREFIX"].contains(word)) {
            assert_eq!(terminals(&word.to_ascii_lowercase()), [(Word(word), word.to_owned())]);
        }
    }

    #[test]
    fn the_longest_match_counts() {
        let texts = |text: &str| terminals(text).into_iter().map(|(_, text)| text).collect::<Vec<_>>();
        assert_eq!(texts("1.5.5"), ["1.5", ".5"]);
        assert_eq!(texts("1."), ["1", "."]);
        assert_eq!(texts("1.a"), ["1", ".", "a"]);
        assert_eq!(texts("1-2+?x- 3"), ["1", "-2", "+", "?x", "-", "3"]);
        assert_eq!(texts("?x.?y?/_:b.[]"), ["?x", ".", "?y", "?", "/", "_:b", ".", "[", "]"]);
        assert_eq!(texts("'a'@en-gb.true.a"), ["\"a\"", "@en-gb", ".", "true", ".", "a"]);
        assert_eq!(texts("!=^^^||&&>=#x\n> ="), ["!=", "^^", "^", "||", "&&", ">=", ">", "="]);
        assert_eq!(texts("'''a''''b'"), ["\"a\"", "\"b\""]);
        assert_eq!(texts("<?x&&?y>"), ["<http://a/b?x&&?y>"]);
        let compared = read("<?x&&?y><= <", Place { may_declare: false, compares: true }).unwrap();
        let compared: Vec<_> = compared.iter().map(|(_, text)| &**text).collect();
        assert_eq!(compared, ["<", "?x", "&&", "?y", ">", "<=", "<"]);
    }

    #[test]
    fn names_are_written_out() {
        let text = "PREFIX : <http://x/> prefix a-b.c:<http://y#>#:\n";
        for (name, iri) in [
            (":", "http://x/"),
            (":c:d.e-%2f", "http://x/c:d.e-%2f"),
            (":\\#\\.1\\'", "http://x/#.1'"),
            ("a-b.c:1.2.3", "http://y#1.2.3"),
            (":a/..", "http://x/a"),
        ] {
            assert_eq!(iris(&format!("{text}{name}")).first(), Some(&format!("<{iri}>")), "{name}");
        }
        assert_eq!(iris("<> <#c> <../d>"), ["<http://a/b>", "<http://a/b#c>", "<http://a/d>"]);
        assert_eq!(iris("BASE <c/> PREFIX p: <d> BASE <e/> <f> p:f"), ["<http://a/c/e/f>", "<http://a/c/df>"]);
        assert_eq!(iris("PREFIX p: <c> p:1 PREFIX p: <d> p:1"), ["<http://a/c1>", "<http://a/d1>"]);
    }

    #[test]
    fn what_is_no_terminal_is_refused_at_its_place() {
        for (text, column) in [
            ("  p:x", 3),
            ("PREFIX p: <x> q:x", 15),
            ("PREFIX p:x <x>", 8),
            ("PREFIX p <x>", 8),
            ("PREFIX p: x", 11),
            ("BASE x", 6),
            ("<a b>", 1),
            ("1 <a", 3),
            ("<a\\>", 1),
            ("'a\n'", 1),
            ("'''a''", 1),
            ("'a\\q'", 3),
            ("'a\\uD800'", 3),
            ("#\\u\n 'a\\u00'", 4),
            ("'''a'((#\\q'''", 9),
            ("true1.5", 1),
            ("UNDEFUNDEF", 1),
            ("FILTERREGEX", 1),
            ("A", 1),
            ("a~", 2),
            ("{ {|", 3),
            ("<<", 1),
            ("'a'@en--ltr", 4),
            ("$ x", 1),
            ("_x", 1),
            ("@1", 1),
            ("\u{e9}t\u{e9}", 1),
            ("\u{b7}", 1),
            ("\\", 1),
            (": :\\x", 1),
        ] {
            match read(text, Place { may_declare: true, compares: false }) {
                Err(UpdateError::Syntax { location: Some(location), .. }) => {
                    assert_eq!(location.column, column, "{text}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
        let elsewhere = read("1 PREFIX p: <x>", Place::default()).unwrap_err();
        assert!(elsewhere.to_string().ends_with("PREFIX is possible only before an operation"), "{elsewhere}");
    }

    #[test]
    fn a_terminal_is_no_longer_than_an_iri_may_be() {
        let long = "x".repeat(1_001);
        for text in [
            format!("<{long}>"),
            format!("PREFIX p: <http://{long}/>"),
            format!("PREFIX p: <{}> p:{}", &long[..900], &long[..900]),
            format!("?{long}"),
            format!("_:{long}"),
            long.clone(),
            format!("{long}:"),
            "1".repeat(1_001),
        ] {
            assert!(read(&text, Place { may_declare: true, compares: false }).is_err_and(|error| error.is_too_large()));
        }
        assert_eq!(terminals(&format!("'{long}'")).len(), 1);
    }

    /// Each word is looked through for a colon once.
    #[test]
    fn words_that_touch_are_read_fast() {
        assert_eq!(read(&"a-".repeat(200_000), Place::default()).unwrap().len(), 400_000);
    }
}

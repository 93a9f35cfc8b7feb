//! Token counts: how often each word occurs in a volume or on a page, in the form of the HTRC Data
//! API.

use std::collections::HashMap;
use std::fmt::Write as _;

use heads::error::{ObjectsError, ObjectsResult};
use unicode_segmentation::UnicodeSegmentation;

/// The most bytes of distinct tokens in one count: more than any book needs, but bounded.
const DISTINCT_BYTES_MAX: usize = 64 << 20;

/// Memory of a token besides its text: its place in the table, its count, its allocation.
const TOKEN_OVERHEAD_BYTES: usize = 64;

/// The order in which tokens are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenOrder {
    /// The sort key.
    pub by: SortBy,
    /// Whether the greatest comes first. Tokens with equal counts are always in code-point order.
    pub descending: bool,
}

/// The sort key of tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// By code points.
    #[default]
    Token,
    /// By how often they occur.
    Count,
}

/// What a token is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tokenization {
    /// What white space separates, as it is written: the original service's tokens. A word that is
    /// broken at the end of a line keeps its hyphen.
    #[default]
    Written,
    /// The words of Unicode Standard Annex #29 that have a letter or a digit, in lower case. A word
    /// that is broken at the end of a line loses its hyphen.
    Words,
}

/// Hyphens that break a word at the end of a line: ASCII's, Unicode's, and the soft one.
const HYPHENS: [char; 3] = ['-', '\u{2010}', '\u{ad}'];

/// A token with the number of its occurrences.
pub type TokenCount = (Box<str>, u64);

/// Counts the tokens of texts, line by line.
///
/// White space separates tokens. If a line has at least two tokens and the last ends in `-`, that
/// token is held back and put before the first token of the next line that has any. Its hyphen
/// stays, unless words are counted. A token alone on its line is not held back.
#[derive(Debug, Default)]
pub struct TokenCounter {
    tokenization: Tokenization,
    counts: HashMap<Box<str>, u64>,
    distinct_bytes: usize,
    held_back: Option<String>,
}

impl TokenCounter {
    /// Counts tokens of a kind.
    pub fn new(tokenization: Tokenization) -> Self {
        Self { tokenization, ..Self::default() }
    }

    /// Counts the tokens of one page. A word that is held back at the end of a page continues on
    /// the next page that is added. Bytes that are not UTF-8 count as replacement characters
    /// (U+FFFD).
    pub fn add_page(&mut self, text: &[u8]) -> ObjectsResult<()> {
        for line in String::from_utf8_lossy(text).split('\n') {
            self.add_line(line)?;
        }
        Ok(())
    }

    fn add_line(&mut self, line: &str) -> ObjectsResult<()> {
        let mut tokens = line.split_whitespace().peekable();
        let Some(first) = tokens.next() else { return Ok(()) };
        match self.held_back.take() {
            Some(begun) => self.add_token(&(begun + first))?,
            None => self.add_token(first)?,
        }
        while let Some(token) = tokens.next() {
            match self.begun_with(token).filter(|_| tokens.peek().is_none()) {
                Some(begun) => self.held_back = Some(begun.to_owned()),
                None => self.add_token(token)?,
            }
        }
        Ok(())
    }

    /// The beginning of a word in the last token of a line, if the word continues on the next one.
    fn begun_with<'a>(&self, token: &'a str) -> Option<&'a str> {
        match self.tokenization {
            Tokenization::Written => token.ends_with('-').then_some(token),
            Tokenization::Words => token.strip_suffix(HYPHENS).filter(|begun| begun.ends_with(char::is_alphabetic)),
        }
    }

    /// Counts what is between white space.
    fn add_token(&mut self, token: &str) -> ObjectsResult<()> {
        match self.tokenization {
            Tokenization::Written => self.count(token),
            Tokenization::Words => token.unicode_words().try_for_each(|word| self.count(&word.to_lowercase())),
        }
    }

    fn count(&mut self, token: &str) -> ObjectsResult<()> {
        if let Some(count) = self.counts.get_mut(token) {
            *count += 1;
            return Ok(());
        }
        self.distinct_bytes += token.len() + TOKEN_OVERHEAD_BYTES;
        if self.distinct_bytes > DISTINCT_BYTES_MAX {
            return Err(ObjectsError::OverLimit(format!(
                "the different tokens of one count may take {DISTINCT_BYTES_MAX} bytes of memory"
            )));
        }
        self.counts.insert(token.into(), 1);
        Ok(())
    }

    /// The memory that the counts take.
    pub fn memory_bytes(&self) -> usize {
        self.distinct_bytes + self.held_back.as_ref().map_or(0, String::len)
    }

    /// The counts, one `token SPACE count LF` per line.
    pub fn finish(self, order: TokenOrder) -> ObjectsResult<String> {
        let mut text = String::new();
        for (token, count) in self.counts(order)? {
            // Writing to a String never fails.
            let _ = writeln!(text, "{token} {count}");
        }
        Ok(text)
    }

    /// The counts in an order. A token that is still held back counts as it is.
    pub fn counts(mut self, order: TokenOrder) -> ObjectsResult<Vec<TokenCount>> {
        if let Some(token) = self.held_back.take() {
            self.add_token(&token)?;
        }
        let mut counts: Vec<TokenCount> = self.counts.into_iter().collect();
        match order.by {
            SortBy::Token => counts.sort_unstable(),
            SortBy::Count => counts.sort_unstable_by(|(a_token, a), (b_token, b)| {
                let by_count = if order.descending { b.cmp(a) } else { a.cmp(b) };
                by_count.then_with(|| a_token.cmp(b_token))
            }),
        }
        if order.by == SortBy::Token && order.descending {
            counts.reverse();
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn counted(pages: &[&str], order: TokenOrder) -> String {
        let mut counter = TokenCounter::default();
        pages.iter().for_each(|page| counter.add_page(page.as_bytes()).unwrap());
        counter.finish(order).unwrap()
    }

    fn by(by: SortBy, descending: bool) -> TokenOrder {
        TokenOrder { by, descending }
    }

    /// Made by hand from the rules.
    const PAGES: [&str; 2] = ["the exam-\nple of the\nlone-\nword \u{e9}t\u{e9} Zebra a-\n\n", "  \r\n\tgain the end-"];

    #[test]
    fn words_broken_at_the_end_of_a_line_are_joined_also_across_pages() {
        assert_eq!(
            counted(&PAGES, TokenOrder::default()),
            "Zebra 1\na-gain 1\nend- 1\nexam-ple 1\nlone- 1\nof 1\nthe 3\nword 1\n\u{e9}t\u{e9} 1\n"
        );
    }

    #[test]
    fn counts_of_single_pages_do_not_join_across_pages() {
        let order = TokenOrder::default();
        assert_eq!(
            counted(&PAGES[..1], order),
            "Zebra 1\na- 1\nexam-ple 1\nlone- 1\nof 1\nthe 2\nword 1\n\u{e9}t\u{e9} 1\n"
        );
        assert_eq!(counted(&PAGES[1..], order), "end- 1\ngain 1\nthe 1\n");
    }

    fn words(pages: &[&str]) -> String {
        let mut counter = TokenCounter::new(Tokenization::Words);
        pages.iter().for_each(|page| counter.add_page(page.as_bytes()).unwrap());
        counter.finish(TokenOrder::default()).unwrap()
    }

    #[test]
    fn words_have_no_punctuation_and_no_case() {
        assert_eq!(words(&["\"The (salmon)\", the SALMON's -- 1847!"]), "1847 1\nsalmon 1\nsalmon's 1\nthe 2\n");
        assert_eq!(
            words(&["\u{c9}T\u{c9} e\u{301}te\u{301}, und-oder"]),
            "e\u{301}te\u{301} 1\noder 1\nund 1\n\u{e9}t\u{e9} 1\n"
        );
        assert_eq!(words(&["... -- * \u{fffd}"]), "");
    }

    #[test]
    fn words_broken_at_the_end_of_a_line_are_joined_without_their_hyphen() {
        assert_eq!(
            words(&["the exam-\nple of a Wort\u{ad}\nteil\u{2010}\n", "end a\u{2010}\nb 1850-\n51"]),
            "1850 1\n51 1\na 1\nab 1\nend 1\nexample 1\nof 1\nthe 1\nwortteil 1\n"
        );
    }

    #[test]
    fn orders_by_count_break_ties_by_token() {
        let pages = ["b a c b a d"];
        assert_eq!(counted(&pages, by(SortBy::Count, true)), "a 2\nb 2\nc 1\nd 1\n");
        assert_eq!(counted(&pages, by(SortBy::Count, false)), "c 1\nd 1\na 2\nb 2\n");
        assert_eq!(counted(&pages, by(SortBy::Token, true)), "d 1\nc 1\nb 2\na 2\n");
    }

    #[test]
    fn more_different_tokens_than_the_memory_is_to_hold_are_refused() {
        let long = "x".repeat(DISTINCT_BYTES_MAX / 4);
        let mut counter = TokenCounter::default();
        let mut page = |n: u32| counter.add_page(format!("{n}{long} {n}{long}").as_bytes());
        (1..=3).for_each(|n| page(n).unwrap());
        assert!(matches!(page(4), Err(ObjectsError::OverLimit(_))));
    }

    #[test]
    fn a_joined_word_that_stands_alone_on_its_line_is_not_held_back_again() {
        assert_eq!(counted(&["one two-\nthree-\nfour"], TokenOrder::default()), "four 1\none 1\ntwo-three- 1\n");
    }

    #[test]
    fn a_line_with_a_joined_word_and_more_holds_its_last_word_back() {
        assert_eq!(counted(&["x be-\ngin go-\non"], TokenOrder::default()), "be-gin 1\ngo-on 1\nx 1\n");
    }
}

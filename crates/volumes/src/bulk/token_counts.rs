//! Token counts: how often each word occurs in a volume or on a page, in the form of the HTRC Data
//! API.

use std::collections::HashMap;
use std::fmt::Write as _;

use heads::error::{ObjectsError, ObjectsResult};

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

/// Counts the tokens of texts, line by line.
///
/// White space separates tokens. If a line has at least two tokens and the last ends in `-`, that
/// token is held back and put before the first token of the next line that has any. Its hyphen
/// stays. A token alone on its line is not held back.
#[derive(Debug, Default)]
pub struct TokenCounter {
    counts: HashMap<Box<str>, u64>,
    distinct_bytes: usize,
    held_back: Option<String>,
}

impl TokenCounter {
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
            Some(begun) => self.count(&(begun + first))?,
            None => self.count(first)?,
        }
        while let Some(token) = tokens.next() {
            if tokens.peek().is_none() && token.ends_with('-') {
                self.held_back = Some(token.to_owned());
            } else {
                self.count(token)?;
            }
        }
        Ok(())
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

    /// The counts, one `token SPACE count LF` per line. A token that is still held back counts as
    /// it is.
    pub fn finish(mut self, order: TokenOrder) -> ObjectsResult<String> {
        if let Some(token) = self.held_back.take() {
            self.count(&token)?;
        }
        let mut counts: Vec<(Box<str>, u64)> = self.counts.into_iter().collect();
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
        let mut text = String::new();
        for (token, count) in counts {
            // Writing to a String never fails.
            let _ = writeln!(text, "{token} {count}");
        }
        Ok(text)
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

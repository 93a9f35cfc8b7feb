//! What two texts differ in, line by line.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use maud::{Markup, html};
use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{DiffOp, DiffTag, group_diff_ops};

/// Most lines of a text that is compared, because each may be a change with its own markup.
const LINES_MAX: usize = 4_000;

/// Unchanged lines that are shown before a change, and after it.
const LINES_AROUND: usize = 3;

/// After this time the rest is compared roughly. What is shown is right then, but may be more than
/// what changed.
const TIME_MAX: Duration = Duration::from_secs(1);

/// What two texts differ in. It computes for up to about a second.
pub fn changed_lines(older: &str, newer: &str) -> Markup {
    if older == newer {
        return html! { p.note { "The bytes differ, but the text is the same." } };
    }
    if older.lines().eq(newer.lines()) {
        return html! { p.note { "The lines are the same, but some end in another way." } };
    }
    let [older, newer] = [older, newer].map(lines);
    if older.len().max(newer.len()) > LINES_MAX {
        return html! { p.note { "The texts have too many lines to compare them." } };
    }
    html! {
        h2 id="changed-lines" { "Changed lines" }
        pre.text tabindex="0" role="region" aria-labelledby="changed-lines" {
            @for changes in group_diff_ops(changes(&older, &newer), LINES_AROUND) {
                (near_each_other(&older, &newer, &changes))
            }
        }
    }
}

/// The lines of a text, with what ends them. A carriage return alone ends one, too.
fn lines(text: &str) -> Vec<&str> {
    let (mut lines, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find(['\r', '\n']) {
        let end = if rest[at..].starts_with("\r\n") { 2 } else { 1 };
        let (line, after) = rest.split_at(at + end);
        lines.push(line);
        rest = after;
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// What changed from some lines to others. They are compared as numbers: the comparison is generic,
/// and so it is compiled once.
fn changes(older: &[&str], newer: &[&str]) -> Vec<DiffOp> {
    let mut numbers = HashMap::new();
    let [older, newer] = [older, newer].map(|lines| {
        let mut number_of = |line| {
            let next = numbers.len();
            *numbers.entry(line).or_insert(next)
        };
        lines.iter().map(|line| number_of(*line)).collect::<Vec<usize>>()
    });
    let mut found = Compact::new(Replace::new(Capture::new()), &older[..], &newer[..]);
    let deadline = Some(Instant::now() + TIME_MAX);
    let Ok(()) = myers::diff_deadline(&mut found, &older[..], 0..older.len(), &newer[..], 0..newer.len(), deadline);
    found.into_inner().into_inner().into_ops()
}

/// Changes that are near each other, with the lines around them. Not every screen reader says what
/// was deleted and inserted, so each part says it in words.
fn near_each_other(older: &[&str], newer: &[&str], changes: &[DiffOp]) -> Markup {
    let first = changes.first().map(|first| [first.old_range().start + 1, first.new_range().start + 1]);
    let older = |change: &DiffOp| &older[change.old_range()];
    let newer = |change: &DiffOp| &newer[change.new_range()];
    let word = |word: &str| html! { span.visually-hidden { (word) ": " } };
    html! {
        @if let Some([older, newer]) = first {
            strong { "From line " (older) " of the older and line " (newer) " of the newer version:" } "\n"
        }
        @for change in changes {
            @if change.tag() == DiffTag::Equal {
                (word("Unchanged")) (signed("  ", older(change)))
            } @else {
                @if !change.old_range().is_empty() { del { (word("Removed")) (signed("- ", older(change))) } }
                @if !change.new_range().is_empty() { ins { (word("Added")) (signed("+ ", newer(change))) } }
            }
        }
    }
}

/// Lines with a sign before each.
fn signed(sign: &str, lines: &[&str]) -> String {
    lines.iter().flat_map(|line| [sign, line.trim_end_matches(['\r', '\n']), "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_have_words_and_signs_and_a_few_lines_around_them_and_are_no_markup() {
        let before: String = (1..=20).map(|line| format!("line {line}\n")).collect();
        let after = before.replace("line 10\n", "<b>\r\nnew\n");
        let shown = changed_lines(&before, &after).into_string();
        let unchanged = "<span class=\"visually-hidden\">Unchanged: </span>";
        let expected = format!(
            "<strong>From line 7 of the older and line 7 of the newer version:</strong>\n\
             {unchanged}  line 7\n  line 8\n  line 9\n\
             <del><span class=\"visually-hidden\">Removed: </span>- line 10\n</del>\
             <ins><span class=\"visually-hidden\">Added: </span>+ &lt;b&gt;\n+ new\n</ins>\
             {unchanged}  line 11\n  line 12\n  line 13\n</pre>"
        );
        assert!(shown.ends_with(&expected), "{shown}");
        let twice = after.replace("line 20\n", "");
        let shown = changed_lines(&before, &twice).into_string();
        assert_eq!(shown.matches("<strong>").count(), 2, "{shown}");
        assert!(shown.contains("From line 17 of the older and line 18 of the newer version:"), "{shown}");
    }

    #[test]
    fn texts_without_changed_lines_and_those_with_very_many_are_not_compared() {
        let many = "a\r".repeat(LINES_MAX + 1);
        for (older, newer, note) in [
            ("a\nb\n", "a\nb\n", "the text is the same"),
            ("a\nb\n", "a\r\nb", "end in another way"),
            ("a\n", &many, "too many lines"),
            (&many, "", "too many lines"),
        ] {
            let shown = changed_lines(older, newer).into_string();
            assert!(shown.contains(note) && !shown.contains("<pre"), "{shown}");
        }
        let most: String = (0..LINES_MAX).map(|line| format!("{line}\n")).collect();
        let shown = changed_lines("", &most).into_string();
        assert!(shown.contains("+ 3999\n</ins>") && !shown.contains("<del>"), "{}", shown.len());
    }
}

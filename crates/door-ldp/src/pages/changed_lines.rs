//! What two texts differ in, line by line.

use std::time::Duration;

use maud::{Markup, html};
use similar::{DiffOp, DiffTag, TextDiff};

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
    if lines_in(older).max(lines_in(newer)) > LINES_MAX {
        return html! { p.note { "The texts have too many lines to compare them." } };
    }
    let diff = TextDiff::configure().timeout(TIME_MAX).diff_lines(older, newer);
    html! {
        h2 id="changed-lines" { "Changed lines" }
        pre.text tabindex="0" role="region" aria-labelledby="changed-lines" {
            @for changes in diff.grouped_ops(LINES_AROUND) { (near_each_other(&diff, &changes)) }
        }
    }
}

/// The number of lines of a text, or a few more. A carriage return alone ends one, too.
fn lines_in(text: &str) -> usize {
    text.lines().map(|line| 1 + line.matches('\r').count()).sum()
}

/// Changes that are near each other, with the lines around them. Not every screen reader says what
/// was deleted and inserted, so each part says it in words.
fn near_each_other(diff: &TextDiff<'_, '_, str>, changes: &[DiffOp]) -> Markup {
    let first = changes.first().map(|first| [first.old_range().start + 1, first.new_range().start + 1]);
    let older = |change: &DiffOp| change.old_range().filter_map(move |line| diff.old_slice(line));
    let newer = |change: &DiffOp| change.new_range().filter_map(move |line| diff.new_slice(line));
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
fn signed<'a>(sign: &str, lines: impl Iterator<Item = &'a str>) -> String {
    lines.flat_map(|line| [sign, line.trim_end_matches(['\r', '\n']), "\n"]).collect()
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

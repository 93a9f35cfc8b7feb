//! Verdicts as a page shows them.

use crate::results::Verdict;

/// The verdict in one word.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "held",
        Verdict::Degrading => "degrading",
        Verdict::Failed => "failed",
        Verdict::Void => "void",
    }
}

/// A sign, for those that do not see colours.
pub(crate) fn sign(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Held => "✓",
        Verdict::Degrading => "↗",
        Verdict::Failed => "✕",
        Verdict::Void => "∅",
    }
}

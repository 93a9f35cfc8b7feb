//! What the evaluator makes of a pattern before it reads anything. Parts of it are copied or
//! followed more than once, and such parts can be inside each other (sparopt 0.3, spareval 0.2):
//!
//! - The left side of an `IN` is copied for each value.
//! - A `FILTER` can be copied to each part of its group.
//! - The condition of an `IF` is built twice where the value is compared.
//! - What is in a `GROUP` is followed twice for the types of its variables.
//! - Both sides of a `/` inside of a path are followed twice for its size.
//! - Operators and parts of a union are put in order by a hash of everything in them.

use spargebra::algebra::PropertyPathExpression;

/// Bytes of a part of the tree besides its text, roughly.
const NODE_BYTES: usize = 64;

/// The tree, with each part as often as the evaluator makes or follows it.
#[derive(Clone, Copy, Default)]
pub(super) struct Tree {
    pub(super) bytes: usize,
    /// Steps for compiling regular expressions.
    pub(super) compile_steps: usize,
}

impl Tree {
    /// Adds a part with a text.
    pub(super) fn add(&mut self, text_bytes: usize) {
        self.bytes = self.bytes.saturating_add(NODE_BYTES).saturating_add(text_bytes);
    }

    /// Counts what was added since then so often, instead of once.
    pub(super) fn repeat(&mut self, since: Self, times: usize) {
        let more = times.saturating_sub(1);
        let repeated = |now: usize, then: usize| now.saturating_add((now - then).saturating_mul(more));
        self.bytes = repeated(self.bytes, since.bytes);
        self.compile_steps = repeated(self.compile_steps, since.compile_steps);
    }
}

/// Bytes of a path, as often as the evaluator follows them.
pub(super) fn path_bytes(path: &PropertyPathExpression) -> usize {
    use PropertyPathExpression as P;
    let inside = match path {
        P::NamedNode(node) => node.as_str().len(),
        P::Reverse(inner) | P::ZeroOrMore(inner) | P::OneOrMore(inner) | P::ZeroOrOne(inner) => path_bytes(inner),
        P::Sequence(left, right) => path_bytes(left).saturating_add(path_bytes(right)).saturating_mul(2),
        P::Alternative(left, right) => path_bytes(left).saturating_add(path_bytes(right)),
        P::NegatedPropertySet(nodes) => nodes.iter().map(|node| node.as_str().len() + NODE_BYTES).sum(),
    };
    inside.saturating_add(NODE_BYTES)
}

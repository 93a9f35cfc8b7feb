//! A graph as the evaluator reads it. Terms are shared, so a solution needs little memory however
//! long its terms are. Terms that the evaluator creates are counted. Each read checks whether the
//! update was cancelled.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use oxrdf::{NamedOrBlankNode, Term};
use spareval::{CancellationToken, InternalQuad, QueryableDataset};

use crate::graph::Graph;

/// Why a read is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ViewError {
    /// The update was cancelled.
    #[error("the update was cancelled")]
    Cancelled,
    /// More was computed than allowed.
    #[error("too much was computed")]
    TooLarge,
    /// More was read than allowed.
    #[error("too much was read")]
    TooManyReads,
}

/// Triples that are compared with a pattern in the time of a read.
const LOOKED_AT_PER_READ: usize = 16;

/// A term that is shared.
pub(super) type Shared = Rc<Term>;

/// A graph to be read.
pub(super) struct View {
    triples: Vec<[Shared; 3]>,
    /// For each place in a triple: numbers of the triples that have this term there.
    by_term: [HashMap<Shared, Vec<usize>>; 3],
    /// Bytes of terms that may still be created.
    left_bytes: Cell<usize>,
    /// Reads that are left. Solutions of a path are found by following it in all ways, which can be
    /// very many more.
    left_reads: Cell<usize>,
    cancellation: CancellationToken,
}

impl View {
    /// A view of a graph. The evaluator may create terms of `computed_bytes` in all, and read so often.
    pub(super) fn new(graph: &Graph, computed_bytes: usize, reads: usize, cancellation: CancellationToken) -> Self {
        let mut terms: HashMap<Shared, Shared> = HashMap::new();
        let mut shared = |term: Term| -> Shared {
            let term = Rc::new(term);
            terms.entry(term.clone()).or_insert(term).clone()
        };
        let mut triples = Vec::with_capacity(graph.len());
        let mut by_term: [HashMap<Shared, Vec<usize>>; 3] = Default::default();
        for (number, triple) in graph.iter().enumerate() {
            let subject = match &triple.subject {
                NamedOrBlankNode::NamedNode(node) => Term::from(node.clone()),
                NamedOrBlankNode::BlankNode(node) => Term::from(node.clone()),
            };
            let triple = [subject, triple.predicate.clone().into(), triple.object.clone()].map(&mut shared);
            for (place, term) in triple.iter().enumerate() {
                by_term[place].entry(term.clone()).or_default().push(number);
            }
            triples.push(triple);
        }
        Self { triples, by_term, left_bytes: Cell::new(computed_bytes), left_reads: Cell::new(reads), cancellation }
    }

    /// Reads that are left.
    pub(super) fn left_reads(&self) -> usize {
        self.left_reads.get()
    }

    fn check(&self) -> Result<(), ViewError> {
        if self.cancellation.is_cancelled() { Err(ViewError::Cancelled) } else { self.take(1) }
    }

    fn take(&self, reads: usize) -> Result<(), ViewError> {
        let left = self.left_reads.get().checked_sub(reads);
        self.left_reads.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(ViewError::TooManyReads)
    }
}

impl<'a> QueryableDataset<'a> for &'a View {
    type InternalTerm = Shared;
    type Error = ViewError;

    fn internal_quads_for_pattern(
        &self,
        subject: Option<&Shared>,
        predicate: Option<&Shared>,
        object: Option<&Shared>,
        graph_name: Option<Option<&Shared>>,
    ) -> impl Iterator<Item = Result<InternalQuad<Shared>, ViewError>> + use<'a> {
        let view: &'a View = self;
        let wanted = [subject.cloned(), predicate.cloned(), object.cloned()];
        // The shortest of the lists that contain all matching triples.
        let lists = wanted
            .iter()
            .zip(&view.by_term)
            .filter_map(|(term, by_term)| term.as_ref().map(|term| by_term.get(term).map_or(&[][..], Vec::as_slice)));
        let shortest: Option<&'a [usize]> = lists.min_by_key(|list| list.len());
        // Those that do not fit take time too.
        let looked_at = shortest.map_or(view.triples.len(), <[usize]>::len) / LOOKED_AT_PER_READ;
        let refused = view.check().and_then(|()| view.take(looked_at)).err().map(Err);
        let candidates: Box<dyn Iterator<Item = &'a [Shared; 3]> + 'a> = match (graph_name, shortest) {
            // There is no graph but the one without a name.
            (None | Some(Some(_)), _) => Box::new(std::iter::empty()),
            (Some(None), Some(numbers)) => Box::new(numbers.iter().map(|number| &view.triples[*number])),
            (Some(None), None) => Box::new(view.triples.iter()),
        };
        let fitting = candidates.filter(move |triple| {
            wanted.iter().zip(triple.iter()).all(|(wanted, term)| wanted.as_ref().is_none_or(|wanted| wanted == term))
        });
        refused.into_iter().chain(fitting.map(move |[subject, predicate, object]| {
            view.check()?;
            let (subject, predicate, object) = (subject.clone(), predicate.clone(), object.clone());
            Ok(InternalQuad { subject, predicate, object, graph_name: None })
        }))
    }

    fn internalize_term(&self, term: Term) -> Result<Shared, ViewError> {
        self.check()?;
        let bytes = match &term {
            Term::NamedNode(node) => node.as_str().len(),
            Term::BlankNode(node) => node.as_str().len(),
            Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
        };
        let left_bytes = self.left_bytes.get().checked_sub(bytes).ok_or(ViewError::TooLarge)?;
        self.left_bytes.set(left_bytes);
        Ok(Rc::new(term))
    }

    fn externalize_term(&self, term: Shared) -> Result<Term, ViewError> {
        Ok(Rc::unwrap_or_clone(term))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use oxrdf::{Literal, NamedNode, Triple};
    use spareval::{QueryEvaluationError, QueryEvaluator};
    use spargebra::{GraphUpdateOperation, SparqlParser};

    use super::*;

    fn name(name: &str) -> NamedNode {
        NamedNode::new_unchecked(format!("http://a/{name}"))
    }

    /// Statements of one property, with numbers as values.
    fn view(statements: usize, stop: &CancellationToken) -> View {
        let one = |n: usize| Triple::new(name(&format!("s{n}")), name("p"), Literal::from(n.to_string()));
        View::new(&(0..statements).map(one).collect(), usize::MAX, usize::MAX, stop.clone())
    }

    #[test]
    fn an_update_that_is_cancelled_while_it_is_evaluated_ends_at_the_next_read() {
        let statements = 1_000;
        let stop = CancellationToken::default();
        let view = view(statements, &stop);
        let solutions = Arc::new(AtomicUsize::new(0));
        let (seen, at_first) = (solutions.clone(), stop.clone());
        // The evaluator has no token of its own, so that only reads can notice it.
        let evaluator = QueryEvaluator::new().with_custom_function(name("cancel"), move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
            at_first.cancel();
            Some(Literal::from(true).into())
        });
        let update = "INSERT { ?s <http://a/q> ?o } WHERE { ?s <http://a/p> ?o FILTER(<http://a/cancel>(?o)) }";
        let mut operations = SparqlParser::new().parse_update(update).unwrap().operations;
        let Some(GraphUpdateOperation::DeleteInsert { delete, insert, pattern, .. }) = operations.pop() else {
            panic!("it has one operation");
        };
        let prepared = evaluator.prepare_delete_insert(delete, insert, None, None, &pattern);
        let changes = prepared.execute(&view).unwrap();
        let error = match changes.collect::<Result<Vec<_>, _>>() {
            Err(QueryEvaluationError::Dataset(error)) => error,
            other => panic!("{:?}", other.map(|changes| changes.len())),
        };
        assert_eq!(error.downcast_ref::<ViewError>(), Some(&ViewError::Cancelled));
        assert_eq!(solutions.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn no_more_is_read_than_allowed() {
        let view = &View { left_reads: Cell::new(5), ..view(10, &CancellationToken::default()) };
        let found: Vec<_> = view.internal_quads_for_pattern(None, None, None, Some(None)).collect();
        assert_eq!(found.iter().filter(|read| read.is_ok()).count(), 4);
        assert_eq!(found[4].as_ref().err(), Some(&ViewError::TooManyReads));
        assert_eq!(view.left_reads(), 0);
    }

    #[test]
    fn each_read_of_a_cancelled_update_fails_even_if_nothing_fits() {
        let stop = CancellationToken::default();
        let view = &view(10, &stop);
        let property = Rc::new(Term::from(name("p")));
        let other = Rc::new(Term::from(name("other")));
        let read = |predicate| view.internal_quads_for_pattern(None, Some(predicate), None, Some(None));
        let mut begun = read(&property);
        assert!(begun.next().unwrap().is_ok());
        assert_eq!(read(&other).count(), 0);
        assert!(view.internalize_term(name("new").into()).is_ok());
        stop.cancel();
        let is_cancelled = |read: Option<Result<_, ViewError>>| read.unwrap().err() == Some(ViewError::Cancelled);
        assert!(is_cancelled(begun.next()));
        assert!(is_cancelled(read(&other).next()));
        assert_eq!(view.internalize_term(name("new").into()).err(), Some(ViewError::Cancelled));
    }
}

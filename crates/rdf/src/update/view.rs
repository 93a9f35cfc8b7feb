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
}

/// A term that is shared.
pub(super) type Shared = Rc<Term>;

/// A graph to be read.
pub(super) struct View {
    triples: Vec<[Shared; 3]>,
    /// For each place in a triple: numbers of the triples that have this term there.
    by_term: [HashMap<Shared, Vec<usize>>; 3],
    /// Bytes of terms that may still be created.
    left_bytes: Cell<usize>,
    cancellation: CancellationToken,
}

impl View {
    /// A view of a graph. The evaluator may create terms of `computed_bytes` in all.
    pub(super) fn new(graph: &Graph, computed_bytes: usize, cancellation: CancellationToken) -> Self {
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
        Self { triples, by_term, left_bytes: Cell::new(computed_bytes), cancellation }
    }

    fn check(&self) -> Result<(), ViewError> {
        if self.cancellation.is_cancelled() { Err(ViewError::Cancelled) } else { Ok(()) }
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
        let candidates: Box<dyn Iterator<Item = &'a [Shared; 3]> + 'a> = match (graph_name, shortest) {
            // There is no graph but the one without a name.
            (None | Some(Some(_)), _) => Box::new(std::iter::empty()),
            (Some(None), Some(numbers)) => Box::new(numbers.iter().map(|number| &view.triples[*number])),
            (Some(None), None) => Box::new(view.triples.iter()),
        };
        let cancelled = view.check().err().map(Err);
        let fitting = candidates.filter(move |triple| {
            wanted.iter().zip(triple.iter()).all(|(wanted, term)| wanted.as_ref().is_none_or(|wanted| wanted == term))
        });
        cancelled.into_iter().chain(fitting.map(move |[subject, predicate, object]| {
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

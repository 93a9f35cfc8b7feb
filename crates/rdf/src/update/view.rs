//! A graph as the evaluator reads it. Terms are shared, so a solution needs little memory however
//! long its terms are. Terms that the evaluator creates are counted. Each read, each copy and each
//! comparison calls the meter (`meter.rs`).

// What changes in a shared term is its meter, and that is no part of its hash.
#![allow(clippy::mutable_key_type)]

use std::cell::Cell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use oxrdf::{NamedOrBlankNode, Term};
use spareval::{InternalQuad, QueryableDataset};

use super::meter::{Meter, stop};
use super::too_much;
use crate::graph::Graph;

/// Triples that are compared with a pattern in the time of a read.
const LOOKED_AT_PER_READ: usize = 16;

/// A term that is shared.
pub(super) struct Shared(Rc<Kept>);

struct Kept {
    term: Term,
    /// With a random seed, which the evaluator's tables do not have.
    hash: u64,
    meter: Arc<Meter>,
}

impl Clone for Shared {
    fn clone(&self) -> Self {
        // A join copies the terms of each pair, whatever comes of it.
        self.0.meter.work(1);
        Self(Rc::clone(&self.0))
    }
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        if Rc::ptr_eq(&self.0, &other.0) {
            return true;
        }
        if self.0.hash != other.0.hash {
            return false;
        }
        self.0.meter.copy(bytes_of(&self.0.term));
        self.0.term == other.0.term
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

/// A graph to be read.
pub(super) struct View {
    triples: Vec<[Shared; 3]>,
    /// For each place in a triple: numbers of the triples that have this term there.
    by_term: [HashMap<Shared, Vec<usize>>; 3],
    /// Bytes of terms that may still be created.
    left_bytes: Cell<usize>,
    hashes: RandomState,
    meter: Arc<Meter>,
}

impl View {
    /// A view of a graph.
    pub(super) fn new(graph: &Graph, meter: &Arc<Meter>) -> Self {
        let mut view = Self {
            triples: Vec::with_capacity(graph.len()),
            by_term: Default::default(),
            left_bytes: Cell::new(meter.limits().expanded_bytes),
            hashes: RandomState::new(),
            meter: meter.clone(),
        };
        let mut terms: HashMap<Shared, Shared> = HashMap::new();
        for (number, triple) in graph.iter().enumerate() {
            let subject = match &triple.subject {
                NamedOrBlankNode::NamedNode(node) => Term::from(node.clone()),
                NamedOrBlankNode::BlankNode(node) => Term::from(node.clone()),
            };
            let triple = [subject, triple.predicate.clone().into(), triple.object.clone()].map(|term| {
                let term = view.shared(term);
                terms.entry(term.clone()).or_insert(term).clone()
            });
            for (place, term) in triple.iter().enumerate() {
                view.by_term[place].entry(term.clone()).or_default().push(number);
            }
            view.triples.push(triple);
        }
        view
    }

    fn shared(&self, term: Term) -> Shared {
        self.meter.copy(bytes_of(&term));
        let hash = self.hashes.hash_one(&term);
        Shared(Rc::new(Kept { term, hash, meter: self.meter.clone() }))
    }
}

/// Bytes of a term, with its type.
fn bytes_of(term: &Term) -> usize {
    match term {
        Term::NamedNode(node) => node.as_str().len(),
        Term::BlankNode(node) => node.as_str().len(),
        Term::Literal(literal) => literal.value().len() + literal.datatype().as_str().len(),
    }
}

impl<'a> QueryableDataset<'a> for &'a View {
    type InternalTerm = Shared;
    type Error = Infallible;

    fn internal_quads_for_pattern(
        &self,
        subject: Option<&Shared>,
        predicate: Option<&Shared>,
        object: Option<&Shared>,
        graph_name: Option<Option<&Shared>>,
    ) -> impl Iterator<Item = Result<InternalQuad<Shared>, Infallible>> + use<'a> {
        let view: &'a View = self;
        let wanted = [subject.cloned(), predicate.cloned(), object.cloned()];
        // The shortest of the lists that contain all matching triples.
        let lists = wanted
            .iter()
            .zip(&view.by_term)
            .filter_map(|(term, by_term)| term.as_ref().map(|term| by_term.get(term).map_or(&[][..], Vec::as_slice)));
        let shortest: Option<&'a [usize]> = lists.min_by_key(|list| list.len());
        // Those that do not fit take time too.
        view.meter.read(1 + shortest.map_or(view.triples.len(), <[usize]>::len) / LOOKED_AT_PER_READ);
        let candidates: Box<dyn Iterator<Item = &'a [Shared; 3]> + 'a> = match (graph_name, shortest) {
            // There is no graph but the one without a name.
            (None | Some(Some(_)), _) => Box::new(std::iter::empty()),
            (Some(None), Some(numbers)) => Box::new(numbers.iter().map(|number| &view.triples[*number])),
            (Some(None), None) => Box::new(view.triples.iter()),
        };
        let fitting = candidates.filter(move |triple| {
            wanted.iter().zip(triple.iter()).all(|(wanted, term)| wanted.as_ref().is_none_or(|wanted| wanted == term))
        });
        fitting.map(move |[subject, predicate, object]| {
            view.meter.read(1);
            let (subject, predicate, object) = (subject.clone(), predicate.clone(), object.clone());
            Ok(InternalQuad { subject, predicate, object, graph_name: None })
        })
    }

    fn internalize_term(&self, term: Term) -> Result<Shared, Infallible> {
        match self.left_bytes.get().checked_sub(bytes_of(&term)) {
            Some(left_bytes) => self.left_bytes.set(left_bytes),
            None => stop(too_much(self.meter.limits())),
        }
        Ok(self.shared(term))
    }

    fn externalize_term(&self, Shared(kept): Shared) -> Result<Term, Infallible> {
        self.meter.copy(bytes_of(&kept.term));
        Ok(Rc::try_unwrap(kept).map_or_else(|kept| kept.term.clone(), |kept| kept.term))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicUsize, Ordering};

    use oxrdf::{Literal, NamedNode, Triple};
    use spareval::QueryEvaluator;
    use spargebra::{GraphUpdateOperation, SparqlParser};

    use super::*;
    use crate::parse::Limits;
    use crate::update::meter::stoppable;
    use crate::update::{Cancellation, Room, UpdateError};

    fn name(name: &str) -> NamedNode {
        NamedNode::new_unchecked(format!("http://a/{name}"))
    }

    /// Statements of one property, with numbers as values.
    fn view(statements: usize, limits: &Limits, stop: &Cancellation) -> View {
        let one = |n: usize| Triple::new(name(&format!("s{n}")), name("p"), Literal::from(n.to_string()));
        let meter = Meter::new(limits, stop, &Room::default(), 0);
        View::new(&(0..statements).map(one).collect(), &Arc::new(meter))
    }

    /// What stops the evaluation of a `WHERE`, in which `<http://a/cancel>` cancels it, and how often
    /// that was called.
    fn stopped(pattern: &str) -> (Option<UpdateError>, usize) {
        let stop = Cancellation::default();
        let view = view(1_000, &Limits::default(), &stop);
        let calls = Arc::new(AtomicUsize::new(0));
        let called = calls.clone();
        let evaluator = QueryEvaluator::new().with_custom_function(name("cancel"), move |_| {
            called.fetch_add(1, Ordering::Relaxed);
            stop.cancel();
            Some(Literal::from(true).into())
        });
        let update = format!("DELETE {{ ?s <http://a/p> ?o }} WHERE {{ {pattern} }}");
        let mut operations = SparqlParser::new().parse_update(&update).unwrap().operations;
        let Some(GraphUpdateOperation::DeleteInsert { delete, insert, pattern, .. }) = operations.pop() else {
            panic!("it has one operation");
        };
        let outcome = stoppable(|| {
            let changes = evaluator.prepare_delete_insert(delete, insert, None, None, &pattern).execute(&view).unwrap();
            assert_eq!(changes.filter(Result::is_err).count(), 0);
            Ok(())
        });
        (outcome.err(), calls.load(Ordering::Relaxed))
    }

    #[test]
    fn an_update_that_is_cancelled_ends_at_the_next_read_wherever_that_is() {
        let cancel = "<http://a/cancel>(?o)";
        for pattern in [
            format!("?s <http://a/p> ?o FILTER({cancel})"),
            format!("?s <http://a/p> ?o FILTER EXISTS {{ FILTER({cancel}) ?s <http://a/p> ?x }}"),
            format!("?s <http://a/p> ?o FILTER NOT EXISTS {{ ?s <http://a/p> ?o FILTER({cancel}) }}"),
            format!("?s <http://a/p> ?o MINUS {{ ?s <http://a/p> ?o FILTER({cancel}) }}"),
            format!("?s <http://a/p> ?o OPTIONAL {{ ?s <http://a/p> ?x FILTER({cancel}) }}"),
        ] {
            assert_eq!(stopped(&pattern), (Some(UpdateError::Cancelled), 1), "{pattern}");
        }
    }

    #[test]
    fn no_more_is_read_than_allowed() {
        // Ten reads for each solution.
        let view = &view(100, &Limits { solutions: 2, ..Limits::default() }, &Cancellation::default());
        let mut found = 0;
        let outcome = stoppable(|| {
            view.internal_quads_for_pattern(None, None, None, Some(None)).for_each(|_| found += 1);
            Ok(())
        });
        assert!(outcome.unwrap_err().is_too_large());
        // One read finds nothing, and looking at a hundred triples takes six.
        assert_eq!(found, 20 - 7);
    }

    #[test]
    fn each_read_of_a_cancelled_update_fails_even_if_nothing_fits() {
        let stop = Cancellation::default();
        let view = &view(10, &Limits::default(), &stop);
        let [property, other] = ["p", "other"].map(|property| view.shared(name(property).into()));
        let read = |predicate: &Shared| view.internal_quads_for_pattern(None, Some(predicate), None, Some(None));
        let mut begun = read(&property);
        assert!(begun.next().is_some());
        assert_eq!(read(&other).count(), 0);
        stop.cancel();
        assert_eq!(stoppable(|| Ok(begun.next().is_some())), Err(UpdateError::Cancelled));
        assert_eq!(stoppable(|| Ok(read(&other).count())), Err(UpdateError::Cancelled));
        let created = stoppable(|| Ok(view.internalize_term(name("new").into()).is_ok()));
        assert_eq!(created, Err(UpdateError::Cancelled));
    }

    #[test]
    fn terms_are_equal_by_what_they_are() {
        let view = &view(1, &Limits::default(), &Cancellation::default());
        let [one, same, other] = ["a", "a", "b"].map(|text| view.shared(name(text).into()));
        assert!(one == same && one != other);
        assert_eq!(view.hashes.hash_one(&one), view.hashes.hash_one(&same));
    }
}

//! Whether two graphs are the same but for the labels of their blank nodes (RDF 1.1 Concepts, 3.6), with
//! bounded work: an answer comes from a server that may be hostile.
//!
//! Blank nodes get colours by what they are connected to, again and again. Where several have the same
//! colour, one of them is paired with each candidate in turn. A pairing is believed only if it turns one
//! graph into the other, statement by statement.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;

use oxrdf::{NamedOrBlankNode, Term, Triple};

/// The most statements that are looked at in all. It takes about a second.
pub const WORK_MAX: u64 = 5_000_000;

/// The graphs could not be compared with bounded work.
#[derive(Debug, PartialEq, Eq)]
pub struct Undecided;

type Colours<'a> = HashMap<&'a str, u64>;

/// Whether renaming the blank nodes of one graph can turn it into the other. `work_max` is how many
/// statements may be looked at, at most.
pub fn isomorphic(one: &HashSet<Triple>, other: &HashSet<Triple>, work_max: u64) -> Result<bool, Undecided> {
    if one.len() != other.len() {
        return Ok(false);
    }
    let (one, other) = (Side::new(one), Side::new(other));
    if one.blank.is_empty() || other.blank.is_empty() {
        return Ok(one.blank.is_empty() && other.blank.is_empty() && one.ground == other.ground);
    }
    if one.ground != other.ground || one.blank.len() != other.blank.len() {
        return Ok(false);
    }
    let mut search = Search { hashes: RandomState::new(), work_left: work_max };
    let colours = (one.first_colours(), other.first_colours());
    search.is_same(&one, &other, colours)
}

/// Colours that are to be refined, after two nodes have got a colour of their own.
struct Turn<'a> {
    of_one: Rc<Colours<'a>>,
    of_other: Rc<Colours<'a>>,
    pair: Option<(&'a str, &'a str, u64)>,
}

/// A graph.
struct Side<'a> {
    /// Statements without blank nodes.
    ground: HashSet<&'a Triple>,
    /// Statements with blank nodes.
    blank: HashSet<&'a Triple>,
}

impl<'a> Side<'a> {
    fn new(graph: &'a HashSet<Triple>) -> Self {
        let (blank, ground) = graph.iter().partition(|triple| nodes(triple).iter().any(Option::is_some));
        Self { ground, blank }
    }

    fn first_colours(&self) -> Colours<'a> {
        self.blank.iter().flat_map(|triple| nodes(triple)).flatten().map(|node| (node, 0)).collect()
    }
}

/// The labels of the blank nodes of a statement: subject and object.
fn nodes(triple: &Triple) -> [Option<&str>; 2] {
    let subject = match &triple.subject {
        NamedOrBlankNode::BlankNode(node) => Some(node.as_str()),
        NamedOrBlankNode::NamedNode(_) => None,
    };
    let object = match &triple.object {
        Term::BlankNode(node) => Some(node.as_str()),
        _ => None,
    };
    [subject, object]
}

struct Search {
    /// With keys of its own, so that no graph can be made to collide.
    hashes: RandomState,
    work_left: u64,
}

impl Search {
    /// Colours nodes until nothing more is learned, and pairs those that look the same.
    fn is_same<'a>(
        &mut self,
        one: &Side<'a>,
        other: &Side<'a>,
        (of_one, of_other): (Colours<'a>, Colours<'a>),
    ) -> Result<bool, Undecided> {
        // Each turn gives one more node a colour of its own.
        let mut open = vec![Turn { of_one: of_one.into(), of_other: of_other.into(), pair: None }];
        while let Some(turn) = open.pop() {
            self.spend(turn.of_one.len())?;
            let (mut of_one, mut of_other) = ((*turn.of_one).clone(), (*turn.of_other).clone());
            if let Some((node, candidate, own)) = turn.pair {
                of_one.insert(node, own);
                of_other.insert(candidate, own);
            }
            self.refine(one, &mut of_one)?;
            self.refine(other, &mut of_other)?;
            let (classes, others) = (classes(&of_one), classes(&of_other));
            let sizes = |classes: &BTreeMap<u64, Vec<&str>>| {
                classes.iter().map(|(colour, nodes)| (*colour, nodes.len())).collect::<Vec<_>>()
            };
            if sizes(&classes) != sizes(&others) {
                continue;
            }
            let Some((colour, nodes)) =
                classes.iter().filter(|(_, nodes)| nodes.len() > 1).min_by_key(|(_, nodes)| nodes.len())
            else {
                if self.is_pairing(one, other, &classes, &others)? {
                    return Ok(true);
                }
                continue;
            };
            let own = self.hashes.hash_one((colour, "paired"));
            let (node, candidates) = (nodes[0], others[colour].clone());
            let (of_one, of_other) = (Rc::new(of_one), Rc::new(of_other));
            open.extend(candidates.into_iter().map(|candidate| Turn {
                of_one: of_one.clone(),
                of_other: of_other.clone(),
                pair: Some((node, candidate, own)),
            }));
        }
        Ok(false)
    }

    /// Gives each node a colour by its statements, until there are no more colours than before.
    fn refine(&mut self, side: &Side<'_>, colours: &mut Colours<'_>) -> Result<(), Undecided> {
        let mut known = classes(colours).len();
        loop {
            self.spend(side.blank.len() + colours.len())?;
            let mut next: HashMap<&str, u64> = HashMap::with_capacity(colours.len());
            for triple in &side.blank {
                let [subject, object] = nodes(triple);
                let colour_of = |node: Option<&str>| node.and_then(|node| colours.get(node).copied());
                let (of_subject, of_object) = (colour_of(subject), colour_of(object));
                // Where a name is, the name counts, and where a node is, its colour.
                let name = match subject {
                    Some(_) => None,
                    None => Some(&triple.subject),
                };
                let value = match object {
                    Some(_) => None,
                    None => Some(&triple.object),
                };
                let is_loop = subject.is_some() && subject == object;
                let statement = (of_subject, name, &triple.predicate, of_object, value, is_loop);
                for (place, node) in [subject, object].into_iter().enumerate() {
                    let Some(node) = node else { continue };
                    let seen = self.hashes.hash_one((place, &statement));
                    // The order of statements does not matter.
                    let sum = next.entry(node).or_default();
                    *sum = sum.wrapping_add(seen);
                }
            }
            for (node, colour) in colours.iter_mut() {
                *colour = self.hashes.hash_one((*colour, next.get(node).copied().unwrap_or_default()));
            }
            let now = classes(colours).len();
            if now == known {
                return Ok(());
            }
            known = now;
        }
    }

    /// Whether nodes of the same colour can take each other's place.
    fn is_pairing(
        &mut self,
        one: &Side<'_>,
        other: &Side<'_>,
        classes: &BTreeMap<u64, Vec<&str>>,
        others: &BTreeMap<u64, Vec<&str>>,
    ) -> Result<bool, Undecided> {
        self.spend(2 * one.blank.len())?;
        let pairs: HashMap<&str, &str> =
            classes.values().zip(others.values()).map(|(one, other)| (one[0], other[0])).collect();
        let renamed = |triple: &&Triple| {
            let mut triple = (*triple).clone();
            if let NamedOrBlankNode::BlankNode(node) = &mut triple.subject {
                *node = oxrdf::BlankNode::new_unchecked(pairs[node.as_str()]);
            }
            if let Term::BlankNode(node) = &mut triple.object {
                *node = oxrdf::BlankNode::new_unchecked(pairs[node.as_str()]);
            }
            triple
        };
        Ok(one.blank.iter().map(renamed).all(|triple| other.blank.contains(&triple)))
    }

    fn spend(&mut self, work: usize) -> Result<(), Undecided> {
        self.work_left = self.work_left.checked_sub(work as u64).ok_or(Undecided)?;
        Ok(())
    }
}

/// The nodes of each colour.
fn classes<'a>(colours: &Colours<'a>) -> BTreeMap<u64, Vec<&'a str>> {
    let mut classes: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for (node, colour) in colours {
        classes.entry(*colour).or_default().push(node);
    }
    classes
}

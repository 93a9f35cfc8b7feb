//! Server-managed statements. Times, sizes, digests and types in a body are ignored, because a
//! client that sends back what it read uses its own spelling, and states what was true then.
//! Containment and membership are checked, and so is a type of another interaction model. Wrong
//! statements are refused by name.

use std::collections::{HashMap, HashSet};
use std::pin::pin;

use area::Area;
use futures::{StreamExt, stream};
use heads::{ResourcePath, RevisionId};
use jiff::Timestamp;
use library::Library;
use rdf::update::Removal;
use rdf::vocab::{ldp, xsd};
use rdf::{Graph, Literal, NamedNode, NamedNodeRef, NamedOrBlankNode, Term, Triple};
use repository::{Backlinks, Binary, Kind, MemberRule, Membership, Resource, ResourceError, ResourceResult};
use store::UnixMillis;

use crate::address::{kept_iri, kept_volumes, path_of_kept};
use crate::claims::{self, Claim, Index};
use crate::errors::LdpError;
use crate::held::Held;
use crate::membership::{self, Taken};
use crate::model::Model;
use crate::stored::kept_description;
use crate::{disposition, fedora};

/// Containers that give a resource members and are read at the same time.
pub const CONTAINERS_AT_ONCE: usize = 16;

/// Bytes of statements that an update would delete and that are looked up together, about. One
/// removal may mean a statement of each rule, and rules may be many and long.
const MEANT_BYTES: usize = 1 << 20;

pub const HAS_SIZE: NamedNodeRef<'static> = NamedNodeRef::new_unchecked("http://www.loc.gov/premis/rdf/v1#hasSize");
const HAS_DIGEST: NamedNodeRef<'static> =
    NamedNodeRef::new_unchecked("http://www.loc.gov/premis/rdf/v1#hasMessageDigest");
const HAS_MIME_TYPE: NamedNodeRef<'static> =
    NamedNodeRef::new_unchecked("http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#hasMimeType");
const FILENAME: NamedNodeRef<'static> =
    NamedNodeRef::new_unchecked("http://www.ebu.ch/metadata/ontologies/ebucore/ebucore#filename");

/// The server-managed statements about a resource, except those that follow from its children, with
/// stored IRIs.
pub fn statements(resource: &Resource) -> Vec<Triple> {
    let subject = NamedNode::new_unchecked(kept_iri(resource.path()));
    let say = |predicate: NamedNodeRef<'_>, object: Term| Triple::new(subject.clone(), predicate.into_owned(), object);
    let model = Model::of(resource);
    let types = model.types().into_iter().chain(model.fedora_types(resource.path()));
    let mut triples: Vec<_> = types.map(|class| say(rdf::vocab::rdf::TYPE, class.into_owned().into())).collect();
    triples.push(say(fedora::CREATED, time(resource.incarnation().time())));
    triples.push(say(fedora::LAST_MODIFIED, time(resource.description_revision().time())));
    if resource.path().is_root() {
        // They are not its children: the data door creates and deletes what is in there.
        triples.push(say(ldp::CONTAINS, NamedNode::new_unchecked(kept_volumes()).into()));
    }
    if let Kind::Binary(binary) = resource.kind() {
        // The server that stores it may know its type.
        if !binary.media_type.is_empty() {
            triples.push(say(HAS_MIME_TYPE, Literal::from(binary.media_type.as_str()).into()));
        }
        let name = binary.disposition.as_deref().and_then(disposition::filename);
        triples.extend(name.map(|name| say(FILENAME, Literal::from(name).into())));
        if binary.elsewhere().is_some() {
            return triples;
        }
        triples.push(say(HAS_SIZE, Literal::from(i64::try_from(binary.len_bytes).unwrap_or(i64::MAX)).into()));
        let (predicate, digest) = has_digest(binary);
        triples.push(say(predicate, digest));
    }
    triples
}

/// The relation of a binary to the digest of its bytes, and the digest.
pub fn has_digest(binary: &Binary) -> (NamedNodeRef<'static>, Term) {
    let digest = format!("urn:sha-256:{}", hex::encode(binary.sha256));
    (HAS_DIGEST, NamedNode::new_unchecked(digest).into())
}

/// A time, as a term.
pub fn time(time: UnixMillis) -> Term {
    Literal::new_typed_literal(time_text(time), xsd::DATE_TIME).into()
}

/// A time as text (RFC 3339).
pub fn time_text(time: UnixMillis) -> String {
    let millis = i64::try_from(time.0).unwrap_or(i64::MAX);
    Timestamp::from_millisecond(millis).map(|time| time.to_string()).unwrap_or_default()
}

/// What the statements of a body are checked against.
pub struct Standing<'a> {
    /// The path of the resource, existing or new.
    pub path: &'a ResourcePath,
    /// Its interaction model, existing or new.
    pub model: Model,
    /// The existing resource.
    pub resource: Option<&'a Resource>,
    /// The rules for its containment and membership statements, with the containers from whose
    /// children they follow: its own rules, and those of containers that give it members.
    pub rules: &'a [(Membership, ResourcePath)],
    /// The rules of containers outside the client's area that give the resource members. The client
    /// does not read what follows from them, so it can state nothing of the kind.
    pub rules_outside: &'a [(Membership, ResourcePath)],
    /// Whether the client asks to ignore server-managed statements.
    pub lenient: bool,
}

impl Standing<'_> {
    /// Removes server-managed statements from a graph (with stored IRIs), if they state nothing
    /// new.
    pub async fn strip(&self, library: &Library, graph: Graph) -> Result<Graph, LdpError> {
        let (mut graph, mut wrong, claims) = self.take_apart(graph);
        let mut never_so = claims::never_so(library, claims, self.rules).await?;
        let outside = Index::of(self.rules_outside);
        graph.retain(|triple| {
            let is_outside = Claim::of(triple, &outside).is_some();
            never_so.extend(is_outside.then(|| triple.clone()));
            !is_outside
        });
        if let (Some(resource), false) = (self.resource, never_so.is_empty()) {
            // Statements that were stored before a container began to state them stay the
            // resource's own.
            let kept = kept_description(library, resource).await?;
            graph.extend(never_so.extract_if(.., |triple| kept.contains(triple)));
        }
        wrong.extend(never_so);
        self.unless_wrong(graph, &wrong)
    }

    /// The same for a new resource, which contains nothing yet.
    pub fn strip_new(&self, graph: Graph) -> Result<Graph, LdpError> {
        let (graph, mut wrong, claims) = self.take_apart(graph);
        wrong.extend(claims.into_iter().map(Claim::into_triple));
        self.unless_wrong(graph, &wrong)
    }

    fn unless_wrong(&self, graph: Graph, wrong: &[Triple]) -> Result<Graph, LdpError> {
        if wrong.is_empty() || self.lenient {
            return Ok(graph);
        }
        let statements = wrong.iter().map(ToString::to_string).collect();
        Err(LdpError::Constraint { why: "the server manages these statements, and they are wrong", statements })
    }

    /// The client's own statements; wrong ones; those that are true if something is in a container.
    fn take_apart(&self, mut graph: Graph) -> (Graph, Vec<Triple>, Vec<Claim>) {
        let own = kept_iri(self.path);
        let said = self.resource.map(statements).unwrap_or_default();
        let index = Index::of(self.rules);
        let mut wrong = Vec::new();
        let mut claims = Vec::new();
        graph.retain(|triple| {
            let is_own = matches!(&triple.subject, NamedOrBlankNode::NamedNode(subject) if subject.as_str() == own);
            match if is_own { self.of_own(triple, &said) } else { Whose::Senders } {
                Whose::Senders => match Claim::of(triple, &index) {
                    Some(claim) => claims.push(claim),
                    None => return true,
                },
                Whose::Servers => {}
                Whose::Wrong => wrong.push(triple.clone()),
            }
            false
        });
        (graph, wrong, claims)
    }

    /// Refuses an update that would delete containment or membership. The graph that an update runs
    /// on has no such statements, so they are recognised by the update's text.
    pub async fn refuse_removing(&self, library: &Library, removals: &[Removal]) -> Result<(), LdpError> {
        if self.lenient {
            return Ok(());
        }
        let (rules, index) = (by_relation(self.rules), Index::of(self.rules));
        let mut statements = Vec::new();
        let (mut meant, mut meant_bytes) = (Vec::new(), 0);
        for removal in removals {
            let Some(relation) = removal.predicate.as_ref().map(NamedNode::as_str) else { continue };
            let Some(alike) = rules.get(relation) else { continue };
            for rule in alike {
                match membership::taken(rule, removal) {
                    Some(Taken::One(member)) => {
                        meant.push(membership::statement_of(rule, member));
                        meant_bytes += rule.resource.len() + relation.len() + member.len();
                    }
                    Some(Taken::All) => {
                        statements.push(removal.to_string());
                        break;
                    }
                    None => {}
                }
            }
            if meant_bytes > MEANT_BYTES {
                statements.extend(self.ever_so(library, &index, std::mem::take(&mut meant)).await?);
                meant_bytes = 0;
                if !statements.is_empty() {
                    break;
                }
            }
            // Other requests go on between two comparisons with many rules.
            tokio::task::yield_now().await;
        }
        statements.extend(self.ever_so(library, &index, meant).await?);
        // Several rules can make the same statement.
        statements.dedup();
        if statements.is_empty() {
            return Ok(());
        }
        Err(LdpError::Constraint { why: "the server manages these statements, and they cannot be deleted", statements })
    }

    /// Those of some statements of the rules that are true, or were true once.
    async fn ever_so(&self, library: &Library, index: &Index<'_>, meant: Vec<Triple>) -> Result<Vec<String>, LdpError> {
        let claims = meant.iter().filter_map(|triple| Claim::of(triple, index)).collect();
        let never_so: HashSet<_> = claims::never_so(library, claims, self.rules).await?.into_iter().collect();
        Ok(meant.iter().filter(|triple| !never_so.contains(triple)).map(ToString::to_string).collect())
    }

    /// The owner of a statement about the resource itself.
    fn of_own(&self, triple: &Triple, said: &[Triple]) -> Whose {
        let predicate = triple.predicate.as_ref();
        let of_bytes = [HAS_SIZE, HAS_DIGEST, HAS_MIME_TYPE, FILENAME].contains(&predicate);
        match &triple.object {
            _ if said.contains(triple) => Whose::Servers,
            Term::NamedNode(class) if predicate == rdf::vocab::rdf::TYPE => self.of_class(class.as_ref()),
            // The rules decide about containment.
            Term::NamedNode(_) if predicate == ldp::CONTAINS => Whose::Senders,
            _ if predicate == ldp::CONTAINS => Whose::Wrong,
            _ if fedora::is_of(predicate) || (of_bytes && self.model == Model::Binary) => Whose::Servers,
            _ => Whose::Senders,
        }
    }

    /// The owner of a type statement.
    fn of_class(&self, class: NamedNodeRef<'_>) -> Whose {
        match class {
            class if Model::is_told_by(class) || class == fedora::ARCHIVAL_GROUP => {
                if self.model.types().contains(&class) { Whose::Servers } else { Whose::Wrong }
            }
            class if class.as_str().starts_with(ldp::NAMESPACE) || fedora::is_of(class) => Whose::Servers,
            _ => Whose::Senders,
        }
    }
}

/// The distinct rules, by relation. Many containers may have the same rule.
fn by_relation(rules: &[(Membership, ResourcePath)]) -> HashMap<&str, Vec<&MemberRule>> {
    let mut seen = HashSet::new();
    let mut distinct: HashMap<&str, Vec<&MemberRule>> = HashMap::new();
    for rule in rules.iter().filter_map(|(membership, _)| membership.rule()) {
        let key = claims::key(rule);
        if seen.insert(key) {
            distinct.entry(key.1).or_default().push(rule);
        }
    }
    distinct
}

/// The owner of a statement.
enum Whose {
    /// The client, unless a rule could make the statement.
    Senders,
    Servers,
    Wrong,
}

/// The rules that make statements about a resource, with the containers from whose children these
/// follow.
pub struct Rules {
    /// The rule of its containment, its own membership rule, and those of other containers within
    /// an area that give it members.
    pub within: Vec<(Membership, ResourcePath)>,
    /// Those of containers outside that area.
    pub outside: Vec<(Membership, ResourcePath)>,
}

/// The rules that make statements about a resource, for a client with an area. `held` counts those
/// of other containers.
pub async fn rules(library: &Library, area: &Area, resource: &Resource, held: &mut Held) -> Result<Rules, LdpError> {
    let mut within = vec![(membership::of_containment(resource.path()), resource.path().clone())];
    let mut outside = Vec::new();
    if let Kind::Container { membership, .. } = resource.kind()
        && membership.rule().is_some()
    {
        within.push((membership.clone(), resource.path().clone()));
    }
    for (membership, container) in giving_members(library, &Area::everywhere(), resource.path(), None, held).await? {
        let rules = if area.has_resource(container.path()) { &mut within } else { &mut outside };
        rules.push((membership, container.path().clone()));
    }
    Ok(Rules { within, outside })
}

/// A state of the past.
#[derive(Clone, Copy)]
pub struct Then {
    /// It was so when exactly the revisions below this one had been made.
    pub below: RevisionId,
    /// Whether what was deleted since is shown.
    pub shows_deleted: bool,
}

/// The other containers within an area that give members to the resource at a path, with their
/// rules. With `then`: those that gave it members in that state, as they were in it. What those
/// outside have in them is not for a limited client. `held` counts them, because their IRIs may be
/// long.
///
/// It reads all that are recorded. These are [`repository::backlinks::GIVING_MAX`] at most, and some
/// more if they were created at the same time, or by an earlier version.
pub async fn giving_members(
    library: &Library,
    area: &Area,
    path: &ResourcePath,
    then: Option<Then>,
    held: &mut Held,
) -> Result<Vec<(Membership, Resource)>, LdpError> {
    let mut giving = Vec::new();
    let mut recorded = Backlinks::giving_members_to(path.clone());
    while let Some(mut containers) = library.repository.more_backlinks(&mut recorded).await? {
        containers.retain(|container| area.has_resource(container));
        let reading = containers.into_iter().map(|container| async move { found(library, &container, then).await });
        let mut reading = pin!(stream::iter(reading).buffered(CONTAINERS_AT_ONCE));
        while let Some(container) = reading.next().await {
            // A deleted container, or one that gives its members to another resource, gives none.
            let Some(container) = container? else { continue };
            let Kind::Container { membership, .. } = container.kind() else { continue };
            if membership.rule().is_some_and(|rule| is_about(rule, path)) {
                held.set(held.bytes() + bytes_of_giving(membership, container.path())).await?;
                giving.push((membership.clone(), container));
            }
        }
    }
    Ok(giving)
}

/// Bytes of containers that give members in memory, with their rules.
pub fn bytes_of_all_giving(giving: &[(Membership, Resource)]) -> u64 {
    giving.iter().map(|(membership, container)| bytes_of_giving(membership, container.path())).sum()
}

/// Bytes of a container that gives members in memory, with its rule: that is in the head, in the
/// resource, and beside it.
fn bytes_of_giving(membership: &Membership, container: &ResourcePath) -> u64 {
    3 * (membership::bytes_of(membership) + container.as_str().len()) as u64
}

/// The resource at a path: the present one, or the one that was there in a state of the past.
async fn found(library: &Library, path: &ResourcePath, then: Option<Then>) -> ResourceResult<Option<Resource>> {
    let repository = &library.repository;
    let Some(Then { below, shows_deleted }) = then else { return unless_gone(repository.resource(path).await) };
    match unless_gone(repository.versions_shown(path, shows_deleted).await)? {
        Some(versions) => versions.in_force(below).await,
        None => Ok(None),
    }
}

/// `None` for what does not exist, or cannot be read for ever.
fn unless_gone<T>(read: ResourceResult<T>) -> ResourceResult<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => Ok(None),
        Err(ResourceError::Objects(error)) if error.is_damage() => {
            tracing::warn!(%error, "a container that may give members cannot be read");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn is_about(rule: &MemberRule, path: &ResourcePath) -> bool {
    path_of_kept(&rule.resource).as_ref() == Some(path)
}

//! Keeps the ACLs of a Fedora as files. They are not applied.
//!
//! The ACL of `/letters` becomes `/acl/letters~fcr-acl.nt`. Fedora gives no resource a name with this
//! end, so no file is where a container of others must be.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{bail, ensure};
use futures::StreamExt;
use preservation::about::About;
use preservation::bagit::text::Algorithm;
use preservation::fedora::FedoraObject;
use preservation::ocfl::Object;
use rdf::{Graph, Literal, NamedNode, Triple};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use super::super::foreign::{DCTERMS, about, container, node};
use super::super::loader::{Loader, Sent, State};
use super::super::report::{Report, What};
use super::super::source::{Bytes, Source};
use super::FedoraRoot;
use crate::client::ClientError;
use crate::exit::full_message;

/// The name of the container of all, unless there is another resource with it.
const NAME: &str = "acl";
/// The most names that are tried.
const NAMES_MAX: usize = 100;
/// The end of the names of files, as Fedora has it.
const END: &str = "~fcr-acl.nt";
/// The media type of files.
const MEDIA_TYPE: &str = "application/n-triples";
/// The title of the container of all.
const TITLE: &str = "ACLs of a Fedora, which are not applied";

/// ACLs that are read ahead.
const READ_AHEAD: usize = 4;
/// ACLs that are kept at the same time.
const KEPT_AT_ONCE: usize = 4;

/// The paths of the resources that ACLs are of, and the objects that have them.
pub(super) type Places = Vec<(String, Arc<Path>)>;

/// The ACLs in the order of a walk through the tree, without those of resources that several objects
/// have: these resources are left out, too.
pub(super) fn ordered(mut places: Places) -> Places {
    let mut counts: HashMap<String, usize> = HashMap::new();
    for (of, _) in &places {
        *counts.entry(of.clone()).or_default() += 1;
    }
    places.retain(|(of, _)| counts[of] == 1);
    places.sort_by(|(one, _), (other, _)| one.split('/').cmp(other.split('/')));
    places
}

/// Keeps all ACLs, and compares them with those that are read. Returns lines for people.
pub async fn keep(root: &Arc<FedoraRoot>, loader: &Loader, report: &Arc<Report>) -> anyhow::Result<Vec<String>> {
    if root.acls.is_empty() {
        return Ok(Vec::new());
    }
    report.omit_count(What::Acl);
    let fail = |path: &str, error: anyhow::Error| -> anyhow::Result<()> {
        if error.downcast_ref().is_some_and(ClientError::stops_all) {
            return Err(error);
        }
        let why = full_message(error.as_ref());
        note!("/{path}: {why}");
        report.resource(What::Failed, path, &why);
        Ok(())
    };
    let within = match container_of_all(root, loader).await {
        Ok(within) => within,
        Err(error) => {
            fail(NAME, error)?;
            return Ok(vec![format!("{} ACLs not kept", root.acls.len())]);
        }
    };
    let mut above = BTreeSet::new();
    for (of, _) in &root.acls {
        above.extend(of.match_indices('/').map(|(end, _)| format!("{within}/{}", &of[..end])));
    }
    // A container comes before those that begin with its path.
    for path in above {
        if let Err(error) = loader.create(&container(&path, Vec::new())).await {
            fail(&path, error)?;
        }
    }
    let (mut states, reader) = read(root, &within, report);
    let states = futures::stream::poll_fn(move |context| states.poll_recv(context));
    let (mut kept, mut failed) = (0_u64, 0_u64);
    {
        let keep = |state: State| async move {
            let done = keep_one(loader, &state).await;
            (state.about.path, done)
        };
        let mut done = pin!(states.map(keep).buffer_unordered(KEPT_AT_ONCE));
        while let Some((path, done)) = done.next().await {
            match done {
                Ok(()) => kept += 1,
                Err(error) => {
                    fail(&path, error)?;
                    failed += 1;
                }
            }
        }
    }
    reader.await?;
    let mut lines = vec![format!("{kept} ACLs kept below /{within}, not applied")];
    if failed > 0 {
        lines.push(format!("{failed} ACLs not kept"));
    }
    Ok(lines)
}

/// The container of all ACLs: that of an earlier load, or a new one with a free name.
async fn container_of_all(root: &FedoraRoot, loader: &Loader) -> anyhow::Result<String> {
    let taken = root.archive.first_names();
    for name in names(&taken) {
        let state = container(&name, statements(&name, TITLE, None));
        if let (Sent::Made, _) = loader.create(&state).await? {
            return Ok(name);
        }
        match compare(loader, &state).await {
            Ok(()) => return Ok(name),
            Err(error) if error.downcast_ref().is_some_and(ClientError::stops_all) => return Err(error),
            // It is something else.
            Err(_) => {}
        }
    }
    bail!("there is no free name for the container of ACLs")
}

/// Names for the container of all, the best one first.
fn names(taken: &HashSet<&str>) -> impl Iterator<Item = String> {
    let further = (2_u64..).map(|n| format!("{NAME}-{n}"));
    std::iter::once(NAME.to_owned()).chain(further).filter(move |name| !taken.contains(name.as_str())).take(NAMES_MAX)
}

/// Refuses to go on unless a resource is there as it should be.
async fn compare(loader: &Loader, state: &State) -> anyhow::Result<()> {
    loader.compare(state, false).await.map(drop)
}

/// Keeps an ACL, and compares it.
async fn keep_one(loader: &Loader, state: &State) -> anyhow::Result<()> {
    match loader.create(state).await?.0 {
        Sent::Made => loader.replace_statements(state).await?,
        Sent::IsThere => {
            if is_changed(loader, state).await? {
                loader.replace_bytes(state).await?;
            }
            // A load that was interrupted leaves a description empty.
            loader.compare_statements(state, true).await?;
        }
    }
    compare(loader, state).await
}

/// Whether Fedora has another ACL than an earlier load. The earlier one stays as a version; without
/// versions it is not replaced.
async fn is_changed(loader: &Loader, state: &State) -> anyhow::Result<bool> {
    let path = &state.about.path;
    let now = state.bytes.as_ref().map(Bytes::repr_digest);
    let there = loader.sha256(path).await?;
    Ok(there.is_some() && there != now && loader.version_count(path).await?.is_some())
}

/// Reads the ACLs of all objects on a thread of its own.
fn read(
    root: &Arc<FedoraRoot>,
    within: &str,
    report: &Arc<Report>,
) -> (mpsc::Receiver<State>, tokio::task::JoinHandle<()>) {
    let (sender, states) = mpsc::channel(READ_AHEAD);
    let (root, within, report) = (root.clone(), within.to_owned(), report.clone());
    let reader = spawn_blocking(move || {
        // The other side leaves before the end only with an error of its own.
        each(&root.acls, &within, &report, &mut |state| sender.blocking_send(state).is_ok());
    });
    (states, reader)
}

/// Gives away all ACLs.
fn each(places: &[(String, Arc<Path>)], within: &str, report: &Report, send: &mut dyn FnMut(State) -> bool) {
    let mut open: Option<(&Arc<Path>, HashMap<String, String>)> = None;
    for (of, folder) in places {
        if open.as_ref().is_none_or(|(known, _)| *known != folder) {
            let acls = of_object(folder).inspect_err(|error| report.left_out(What::Changed, folder, error));
            open = Some((folder, acls.unwrap_or_default()));
        }
        // One that was deleted meanwhile is in an object that has changed, which is reported.
        let statements = open.as_mut().and_then(|(_, acls)| acls.remove(of));
        if let Some(statements) = statements
            && !send(file(within, of, statements))
        {
            return;
        }
    }
}

/// The statements of the ACLs in an object, by the paths of the resources that they are of.
fn of_object(folder: &Path) -> anyhow::Result<HashMap<String, String>> {
    let object = Object::open_with_mutable_head(folder)?;
    let acls = FedoraObject::read(&object)?.acls;
    ensure!(!acls.is_empty(), "it has changed since it was checked");
    Ok(acls.into_iter().map(|acl| (acl.of, acl.statements)).collect())
}

/// An ACL as a file.
fn file(within: &str, of: &str, statements_of_acl: String) -> State {
    let path = format!("{within}/{of}{END}");
    let bytes = bytes::Bytes::from(statements_of_acl);
    let mut digest = Algorithm::Sha256.begin();
    digest.update(&bytes);
    let digest = digest.finalize().to_vec();
    let about = About { content_type: Some(MEDIA_TYPE.to_owned()), ..about(&path, "NonRDFSource") };
    let statements = statements(&path, &format!("ACL of /{of}"), Some(of));
    let bytes = Bytes { source: Source::Held(bytes), algorithm: Algorithm::Sha256, digest };
    State { about, statements: statements.into(), bytes: Some(bytes) }
}

/// The statements about a file or the container of all: its title, and the resource that it is for.
fn statements(path: &str, title: &str, of: Option<&str>) -> Vec<u8> {
    let property = |name: &str| NamedNode::new_unchecked(format!("{DCTERMS}{name}"));
    let mut graph = Graph::default();
    graph.insert(Triple::new(node(path), property("title"), Literal::from(title)));
    if let Some(of) = of {
        graph.insert(Triple::new(node(path), property("relation"), node(of)));
    }
    rdf::to_stored(&graph)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::super::loader::Statements;
    use super::*;

    #[test]
    fn a_name_that_fedora_has_is_not_that_of_the_container_of_acls() {
        let first = |taken: &[&str]| names(&taken.iter().copied().collect()).next().unwrap();
        assert_eq!(first(&["letters"]), "acl");
        assert_eq!(first(&["acl", "letters", "acl-2"]), "acl-3");
    }

    #[test]
    fn acls_come_in_the_order_of_the_tree_and_those_of_doubles_are_left_out() {
        let places = ["a-b", "a/b", "twice", "a", "", "twice"];
        let folder: Arc<Path> = Path::new("object").into();
        let ordered = ordered(places.map(|of| (of.to_owned(), folder.clone())).to_vec());
        let ordered: Vec<_> = ordered.iter().map(|(of, _)| of.as_str()).collect();
        assert_eq!(ordered, ["", "a", "a/b", "a-b"]);
    }

    #[test]
    fn the_file_of_an_acl_names_the_resource_that_it_is_for() {
        let state = file("acl", "a b", "<a:b> <a:c> <a:d> .\n".to_owned());
        assert_eq!(state.about.path, "acl/a b~fcr-acl.nt");
        let Statements::Exported(statements) = state.statements else { panic!("nothing is loaded yet") };
        let statements = String::from_utf8(statements).unwrap();
        let relation = "<http://purl.org/dc/terms/relation> <http://load.invalid/a%20b> .";
        assert!(statements.contains(relation), "{statements}");
        assert_eq!(file("acl", "", String::new()).about.path, "acl/~fcr-acl.nt");
    }
}

//! Operations of clients and servers, over few names, so that they meet.

mod draw;
mod fast;
mod past;
mod pipelined;
mod records;
mod resources;
mod transactions;
mod versions;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ::feed::{Cursor, FeedError, Page};
use ::volumes::CollectLimits;
use hathi::VolumeId;
use heads::{ObjectsError, ResourcePath, RevisionId, keys};
use library::Library;
use parking_lot::Mutex;
use repository::ResourceError;
use store::{Call, Class, Deadline};

pub(crate) use self::draw::VERSIONED;
pub(crate) use self::fast::{ATTRIBUTES, FastChange, FastFound, FastWork};
use self::past::remember;
pub(crate) use self::past::{Archived, Past, Question, VolumeThen};
pub(crate) use self::pipelined::{Answer, Pipelined};
pub(crate) use self::records::{AttributeChange, Counted, Found, IDS, RecordChange, RecordWork};
use self::resources::{create, delete, list, post, read, update};
pub(crate) use self::transactions::{Does, End, Transact};
pub(crate) use self::versions::FoundVersions;
use self::versions::{ask_for_version, bring_back, read_versions, remove_version, restore, send_version};
use self::volumes::{import, list_volumes, read_selection, read_volumes, select};
use crate::model::{Reply, Subject};
use crate::store::world::World;
use crate::trace::Op;

/// Containers, each after its parent.
pub(crate) const CONTAINERS: [&str; 5] = ["", "a", "b", "a/c", "a/c/d"];

/// Volumes.
pub(crate) const VOLUMES: [&str; 3] = ["t.v0", "t.v1", "t.v2"];

/// Containers that are archival groups, if clients create them so. The first one is also deleted.
pub(crate) const GROUPS: [&str; 2] = ["g", "h"];

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Create { path: ResourcePath, what: What },
    CreateOver { path: ResourcePath, what: What },
    Post { container: ResourcePath, wish: Option<String>, what: What },
    Update { path: ResourcePath, what: What },
    Delete { path: ResourcePath },
    RemoveTombstone { path: ResourcePath },
    Read { path: ResourcePath },
    List { container: ResourcePath, page: usize },
    Import { volume: VolumeId, token: String },
    DeleteVolume { volume: VolumeId },
    ReadVolumes { volumes: Vec<VolumeId>, pause: Duration },
    ListVolumes { page: usize },
    Select { volumes: Vec<VolumeId> },
    ReadSelection { nth: usize, pause: Duration },
    Tend(Tend),
    Follow { consumer: usize, from: Cursor, max: usize },
    Remember(Question),
    AskForVersion { path: ResourcePath },
    Restore { path: ResourcePath, nth: usize },
    BringBack { path: ResourcePath, nth: usize },
    RemoveVersion { path: ResourcePath, nth: usize },
    ReadVersions { path: ResourcePath, max: usize },
    SendVersion { path: ResourcePath, nth: u64, token: String },
    Records(RecordWork),
    Pipelined(Pipelined),
    Fast(FastWork),
    Transact(Transact),
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Statements(String),
    Container,
    /// A container that is an archival group.
    Group(String),
    Bytes(String),
}

/// The background passes of servers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tend {
    ResumeDeletions,
    EmptyContainers,
    Collect,
    CollectVersions,
    CollectContents,
    Grow,
    SweepSelections,
    SweepStore,
    /// Only where there are transactions.
    EndTransactions,
}

impl Tend {
    pub(crate) const ALL: [Self; 8] = [
        Self::ResumeDeletions,
        Self::EmptyContainers,
        Self::Collect,
        Self::CollectVersions,
        Self::CollectContents,
        Self::Grow,
        Self::SweepSelections,
        Self::SweepStore,
    ];
}

/// The outcome of an operation.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) reply: Reply,
    pub(crate) seen: Seen,
}

/// What a client read.
#[derive(Debug)]
pub(crate) enum Seen {
    Nothing,
    /// A resource at this revision, or none.
    Resource {
        path: ResourcePath,
        revision: Option<RevisionId>,
    },
    /// Children of a container at this incarnation.
    Children {
        container: ResourcePath,
        incarnation: RevisionId,
        names: BTreeSet<String>,
    },
    Volumes(BTreeSet<String>),
    /// A name that cannot be used, because what was there was deleted.
    Gone {
        path: ResourcePath,
    },
    /// A page of the change feed, behind a consumer's cursor.
    Events {
        consumer: usize,
        from: Cursor,
        page: Page,
    },
    /// The past of an object.
    Past {
        question: Question,
        past: Past,
    },
    /// The versions of a resource.
    Versions(FoundVersions),
    /// What an operation on records began with.
    Records(Found),
    /// The answers to changes of records that arrived together.
    Pipelined(Vec<Answer>),
    /// What a read of a record in mode fast has shown.
    Fast(FastFound),
    /// An observation that must not occur.
    Wrong(String),
}

impl Came {
    fn replied(reply: Reply) -> Self {
        Self { reply, seen: Seen::Nothing }
    }

    fn seen(seen: Seen) -> Self {
        Self { reply: Reply::Done(None), seen }
    }
}

pub(crate) fn parsed(text: &str) -> ResourcePath {
    ResourcePath::parse(text).unwrap_or_default()
}

pub(crate) fn volume_id(text: &str) -> VolumeId {
    VolumeId::parse(text).unwrap_or_else(|error| panic!("{text} is a volume id: {error}"))
}

impl Work {
    /// What the operation changes.
    pub(crate) fn target(&self) -> Subject {
        match self {
            Self::Create { path, .. }
            | Self::CreateOver { path, .. }
            | Self::Update { path, .. }
            | Self::AskForVersion { path }
            | Self::Restore { path, .. }
            | Self::BringBack { path, .. }
            | Self::Delete { path } => Subject::Object(keys::resource_partition(path)),
            Self::Post { .. } => Subject::Fresh,
            Self::Import { volume, .. } | Self::DeleteVolume { volume } => {
                Subject::Object(keys::volume_partition(volume))
            }
            _ => Subject::Nothing,
        }
    }

    /// Whether what it makes is a version also where only those are kept that clients ask for. What
    /// is brought back is none there, as nothing is that is created.
    pub(crate) fn asks_for_version(&self) -> bool {
        matches!(self, Self::AskForVersion { .. } | Self::Restore { .. })
    }

    /// Runs the operation, which is the `op`-th.
    pub(crate) async fn run(self, op: Op, library: Library, world: Arc<Mutex<World>>) -> Came {
        match self {
            Self::Create { path, what } => create(&library, &path, &what, false).await,
            Self::CreateOver { path, what } => create(&library, &path, &what, true).await,
            Self::Post { container, wish, what } => post(&library, &container, wish.as_deref(), &what).await,
            Self::Update { path, what } => update(&library, &path, &what).await,
            Self::Delete { path } => delete(&library, &path).await,
            Self::RemoveTombstone { path } => match library.repository.remove_tombstone(&path).await {
                Ok(()) => Came::replied(Reply::Done(None)),
                Err(error) => Came::replied(refused(&error)),
            },
            Self::Read { path } => read(&library, &path).await,
            Self::List { container, page } => list(&library, &container, page).await,
            Self::Import { volume, token } => import(&library, &volume, &token).await,
            Self::DeleteVolume { volume } => match library.volumes.delete(&volume).await {
                Ok(()) => Came::replied(Reply::Done(None)),
                Err(error) => Came::replied(refused_object(&error)),
            },
            Self::ReadVolumes { volumes, pause } => read_volumes(&library, volumes, pause).await,
            Self::ListVolumes { page } => list_volumes(&library, page).await,
            Self::Select { volumes } => select(&library, volumes, &world).await,
            Self::ReadSelection { nth, pause } => read_selection(&library, nth, pause, &world).await,
            Self::Tend(tend) => self::tend(&library, tend).await,
            Self::Transact(work) => work.run(&library, &world).await,
            // It needs no library; `Run::ask` runs it.
            Self::Records(_) | Self::Pipelined(_) | Self::Fast(_) => {
                Came::seen(Seen::Wrong("a server without records is asked for one".to_owned()))
            }
            Self::Remember(question) => remember(&library, question).await,
            Self::AskForVersion { path } => ask_for_version(&library, &path).await,
            Self::Restore { path, nth } => restore(&library, &path, nth, op, &world).await,
            Self::BringBack { path, nth } => bring_back(&library, &path, nth, op, &world).await,
            Self::RemoveVersion { path, nth } => remove_version(&library, &path, nth, &world).await,
            Self::ReadVersions { path, max } => read_versions(&library, path, max).await,
            Self::SendVersion { path, nth, token } => send_version(&library, &path, nth, &token, &world).await,
            Self::Follow { consumer, from, max } => match library.feed.after(from, max).await {
                Ok(page) => Came::seen(Seen::Events { consumer, from, page }),
                Err(FeedError::Dropped { .. }) => Came::seen(Seen::Wrong("the feed has dropped changes".to_owned())),
                Err(error) => Came::replied(Reply::Unknown(error.to_string())),
            },
        }
    }
}

/// What a client learns from an error.
fn refused(error: &ResourceError) -> Reply {
    match error {
        ResourceError::Objects(error) => refused_object(error),
        _ => Reply::Refused(error.to_string()),
    }
}

fn refused_object(error: &ObjectsError) -> Reply {
    match error {
        ObjectsError::Absent(_) | ObjectsError::Gone(_) | ObjectsError::Conflict(_) => {
            Reply::Refused(error.to_string())
        }
        error => Reply::Unknown(error.to_string()),
    }
}

/// Damage: a simulated store has none, so an operation that reports damage has found that something
/// was deleted.
fn damage(error: &ObjectsError) -> Option<Came> {
    error.is_damage().then(|| Came::seen(Seen::Wrong(error.to_string())))
}

/// Runs one of the background passes.
pub(crate) async fn tend(library: &Library, tend: Tend) -> Came {
    let done = match tend {
        Tend::ResumeDeletions => library.repository.resume_deletions(Duration::ZERO).await.map(|_| ()),
        Tend::EmptyContainers => library.repository.empty_deleted_containers().await.map(|_| ()),
        Tend::Collect => library.volumes.collect_once(CollectLimits::default()).await.map(|_| ()),
        Tend::CollectVersions => library.repository.collect_versions().await.map(|_| ()),
        Tend::CollectContents => library.repository.collect_contents().await.map(|_| ()),
        Tend::Grow => library.heads.grow_containers().await.map(|_| ()),
        Tend::SweepSelections => library.volumes.sweep_selections().await.map(|_| ()),
        Tend::EndTransactions => library.repository.end_transactions(Duration::ZERO).await.map(|_| ()),
        Tend::SweepStore => {
            let call = Call::new(Class::Record, Deadline::within(Duration::from_secs(30)));
            library.store().sweep(call).await.map(|_| ()).map_err(ObjectsError::from)
        }
    };
    match done {
        Ok(()) => Came::replied(Reply::Done(None)),
        Err(error) => damage(&error).unwrap_or_else(|| Came::replied(Reply::Unknown(error.to_string()))),
    }
}

//! What clients and servers do: one operation each, over few names, so that they meet.

use std::collections::BTreeSet;
use std::io::{Cursor, Write};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use hathi::{VolumeId, VolumeParts};
use md5::{Digest, Md5};
use objects::resources::{
    DigestAlgorithm, Kind, Membership, NewKind, NewResource, Resource, Update, Uploaded, Written,
};
use objects::{
    BulkRequest, CollectLimits, Imported, Library, ListToken, ObjectsError, OnDamage, Requester, ResourceError,
    ResourcePath, RevisionId, SelectionTerms, Unchanged, keys,
};
use parking_lot::Mutex;
use store::{Call, Class, Deadline};

use crate::chance::Chance;
use crate::model::{Promise, Target, Told};
use crate::setup::Theme;
use crate::store::world::World;

/// Containers, those above before those below.
pub(crate) const CONTAINERS: [&str; 5] = ["", "a", "b", "a/c", "a/c/d"];

/// Names in containers.
const NAMES: [&str; 3] = ["n0", "n1", "c"];

/// Volumes.
pub(crate) const VOLUMES: [&str; 3] = ["t.v0", "t.v1", "t.v2"];

/// An operation.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Create { path: ResourcePath, what: What },
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
}

/// What is written.
#[derive(Clone, Debug)]
pub(crate) enum What {
    Statements(String),
    Container,
    Bytes(String),
}

/// What servers do without being asked.
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

/// What came of an operation.
#[derive(Debug)]
pub(crate) struct Came {
    pub(crate) told: Told,
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
    /// Something that must not be.
    Wrong(String),
}

impl Came {
    fn told(told: Told) -> Self {
        Self { told, seen: Seen::Nothing }
    }

    fn seen(seen: Seen) -> Self {
        Self { told: Told::Done(None), seen }
    }
}

fn path_of(chance: &mut Chance) -> ResourcePath {
    let container = *chance.one_of(&CONTAINERS[..4]);
    let name = *chance.one_of(&NAMES);
    let text = if container.is_empty() { name.to_owned() } else { format!("{container}/{name}") };
    parsed(&text)
}

pub(crate) fn parsed(text: &str) -> ResourcePath {
    ResourcePath::parse(text).unwrap_or_default()
}

fn container_of(chance: &mut Chance) -> ResourcePath {
    parsed(chance.one_of::<&str>(&CONTAINERS))
}

fn volume_of(chance: &mut Chance) -> VolumeId {
    volume_id(chance.one_of::<&str>(&VOLUMES))
}

pub(crate) fn volume_id(text: &str) -> VolumeId {
    VolumeId::parse(text).unwrap_or_else(|error| panic!("{text} is a volume id: {error}"))
}

impl Work {
    /// The next operation.
    pub(crate) fn draw(chance: &mut Chance, number: u64, theme: Theme) -> Self {
        match theme {
            Theme::Mixed => Self::any(chance, number),
            Theme::Crowded => Self::crowded(chance, number),
            Theme::Volumes => Self::about_volumes(chance, number),
        }
    }

    /// One about a container and what is in it.
    fn crowded(chance: &mut Chance, number: u64) -> Self {
        let token = format!("t{number}");
        let (container, child) = (parsed("a"), parsed(if chance.permille(700) { "a/n0" } else { "a/n1" }));
        match chance.below(100) {
            0..=24 => Self::Create { path: child, what: What::Statements(token) },
            25..=29 => Self::Create { path: container, what: What::Container },
            30..=34 => Self::Post { container, wish: Some("n0".to_owned()), what: What::Bytes(token) },
            35..=38 => Self::Update { path: child, what: What::Statements(token) },
            39..=52 => Self::Delete { path: child },
            53..=58 => Self::Delete { path: container },
            59..=70 => Self::RemoveTombstone { path: child },
            71..=76 => Self::RemoveTombstone { path: container },
            77..=90 => Self::List { container, page: chance.place(3) + 1 },
            91..=93 => Self::List { container: parsed(""), page: 2 },
            94..=96 => Self::Tend(Tend::Grow),
            _ => Self::Tend(*chance.one_of(&Tend::ALL)),
        }
    }

    /// One about two volumes.
    fn about_volumes(chance: &mut Chance, number: u64) -> Self {
        let volume = volume_id(VOLUMES[usize::from(chance.permille(300))]);
        let volumes = vec![volume.clone()];
        match chance.below(100) {
            0..=27 => Self::Import { volume, token: format!("t{number}") },
            28..=35 => Self::DeleteVolume { volume },
            36..=49 => Self::ReadVolumes { volumes, pause: Duration::from_millis(chance.below(1_450)) },
            50..=57 => Self::ListVolumes { page: chance.place(2) + 1 },
            58..=66 => Self::Select { volumes },
            67..=71 => Self::ReadSelection {
                nth: usize::try_from(chance.below(100)).unwrap_or(0),
                pause: Duration::from_millis(chance.below(1_000)),
            },
            72..=94 => Self::Tend(Tend::Collect),
            _ => Self::Tend(*chance.one_of(&Tend::ALL)),
        }
    }

    fn any(chance: &mut Chance, number: u64) -> Self {
        let token = format!("t{number}");
        let what = |chance: &mut Chance| match chance.below(10) {
            0..=5 => What::Statements(token.clone()),
            6 => What::Container,
            _ => What::Bytes(token.clone()),
        };
        let some_volumes = |chance: &mut Chance| {
            let count = chance.place(2) + 1;
            (0..count)
                .map(|n| volume_id(VOLUMES[(n + usize::from(chance.permille(500))) % VOLUMES.len()]))
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect()
        };
        match chance.below(100) {
            0..=15 => Self::Create { path: path_of(chance), what: what(chance) },
            16..=20 => Self::Create { path: container_or(chance), what: What::Container },
            21..=27 => {
                let wish = chance.permille(500).then(|| (*chance.one_of(&NAMES)).to_owned());
                Self::Post { container: container_of(chance), wish, what: what(chance) }
            }
            28..=36 => Self::Update { path: path_of(chance), what: what(chance) },
            37..=43 => Self::Delete { path: path_of(chance) },
            44..=47 => Self::Delete { path: container_or(chance) },
            48..=52 => Self::RemoveTombstone { path: path_of(chance) },
            53..=55 => Self::RemoveTombstone { path: container_or(chance) },
            56..=59 => Self::Read { path: path_of(chance) },
            60..=68 => Self::List { container: container_of(chance), page: chance.place(4) + 1 },
            69..=75 => Self::Import { volume: volume_of(chance), token },
            76..=78 => Self::DeleteVolume { volume: volume_of(chance) },
            79..=81 => {
                Self::ReadVolumes { volumes: some_volumes(chance), pause: Duration::from_millis(chance.below(1_400)) }
            }
            82..=84 => Self::ListVolumes { page: chance.place(3) + 1 },
            85..=87 => Self::Select { volumes: some_volumes(chance) },
            88..=89 => Self::ReadSelection {
                nth: usize::try_from(chance.below(100)).unwrap_or(0),
                pause: Duration::from_millis(chance.below(1_000)),
            },
            _ => Self::Tend(*chance.one_of(&Tend::ALL)),
        }
    }

    /// What it is to change.
    pub(crate) fn target(&self) -> Target {
        match self {
            Self::Create { path, .. } | Self::Update { path, .. } | Self::Delete { path } => {
                Target::Object(keys::resource_partition(path))
            }
            Self::Post { .. } => Target::Fresh,
            Self::Import { volume, .. } | Self::DeleteVolume { volume } => {
                Target::Object(keys::volume_partition(volume))
            }
            _ => Target::Nothing,
        }
    }

    /// Does it.
    pub(crate) async fn run(self, library: Library, world: Arc<Mutex<World>>) -> Came {
        match self {
            Self::Create { path, what } => create(&library, &path, &what).await,
            Self::Post { container, wish, what } => post(&library, &container, wish.as_deref(), &what).await,
            Self::Update { path, what } => update(&library, &path, &what).await,
            Self::Delete { path } => delete(&library, &path).await,
            Self::RemoveTombstone { path } => match library.remove_tombstone(&path).await {
                Ok(()) => Came::told(Told::Done(None)),
                Err(error) => Came::told(refused(&error)),
            },
            Self::Read { path } => read(&library, &path).await,
            Self::List { container, page } => list(&library, &container, page).await,
            Self::Import { volume, token } => import(&library, &volume, &token).await,
            Self::DeleteVolume { volume } => match library.delete(&volume).await {
                Ok(()) => Came::told(Told::Done(None)),
                Err(error) => Came::told(refused_object(&error)),
            },
            Self::ReadVolumes { volumes, pause } => read_volumes(&library, volumes, pause).await,
            Self::ListVolumes { page } => list_volumes(&library, page).await,
            Self::Select { volumes } => select(&library, volumes, &world).await,
            Self::ReadSelection { nth, pause } => read_selection(&library, nth, pause, &world).await,
            Self::Tend(tend) => self::tend(&library, tend).await,
        }
    }
}

fn container_or(chance: &mut Chance) -> ResourcePath {
    parsed(CONTAINERS[1 + chance.place(CONTAINERS.len() - 1)])
}

/// What a client is told by an error.
fn refused(error: &ResourceError) -> Told {
    match error {
        ResourceError::Objects(error) => refused_object(error),
        _ => Told::Refused(error.to_string()),
    }
}

fn refused_object(error: &ObjectsError) -> Told {
    match error {
        ObjectsError::Absent(_) | ObjectsError::Gone(_) | ObjectsError::Conflict(_) => Told::Refused(error.to_string()),
        error => Told::Unknown(error.to_string()),
    }
}

/// Damage: there is none in a simulated store, so who finds some finds what was taken away.
fn damage(error: &ObjectsError) -> Option<Came> {
    error.is_damage().then(|| Came::seen(Seen::Wrong(error.to_string())))
}

fn written(path: &ResourcePath, revision: RevisionId) -> Came {
    Came::told(Told::Done(Some((keys::resource_partition(path), revision))))
}

/// Something new, with bytes that were uploaded for it.
async fn made(library: &Library, path: &ResourcePath, what: &What) -> Result<(NewResource, Option<Uploaded>), Came> {
    let (kind, description, uploaded) = match what {
        What::Statements(token) => (NewKind::RdfSource, Bytes::from(token.clone()), None),
        What::Container => return Ok((NewResource::empty_container(), None)),
        What::Bytes(token) => {
            let uploaded = upload(library, path, token).await?;
            (NewKind::Binary(uploaded.clone()), Bytes::new(), Some(uploaded))
        }
    };
    Ok((NewResource { kind, description, ..NewResource::empty_container() }, uploaded))
}

/// Bytes of a token: few for a third of all, so that they go into a row.
fn bytes_of(token: &str) -> Bytes {
    let number: usize = token.trim_start_matches('t').parse().unwrap_or(0);
    Bytes::from(token.repeat(if number.is_multiple_of(3) { 1 } else { 30 }))
}

async fn upload(library: &Library, path: &ResourcePath, token: &str) -> Result<Uploaded, Came> {
    let source = futures::stream::iter([Ok::<_, std::io::Error>(bytes_of(token))]);
    library.upload(path, source, &[]).await.map_err(|error| Came::told(Told::Unknown(error.to_string())))
}

/// Gives back what was uploaded, unless nobody knows whether something names it: as the repository door does.
async fn give_back(library: &Library, uploaded: Option<Uploaded>, error: ResourceError) -> Came {
    if let Some(uploaded) = uploaded
        && !matches!(error, ResourceError::Objects(ObjectsError::Unknown(_)))
    {
        library.discard(&uploaded).await;
    }
    Came::told(refused(&error))
}

async fn create(library: &Library, path: &ResourcePath, what: &What) -> Came {
    let (new, uploaded) = match made(library, path, what).await {
        Ok(made) => made,
        Err(came) => return came,
    };
    match library.create_resource(path, &new).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => {
            let gone = match &error {
                ResourceError::Gone { tombstone } => Some(tombstone.clone()),
                _ => None,
            };
            let came = give_back(library, uploaded, error).await;
            Came { seen: gone.map_or(Seen::Nothing, |path| Seen::Gone { path }), ..came }
        }
    }
}

async fn post(library: &Library, container: &ResourcePath, wish: Option<&str>, what: &What) -> Came {
    let (new, uploaded) = match made(library, container, what).await {
        Ok(made) => made,
        Err(came) => return came,
    };
    let make = |_: &Resource, _: &ResourcePath| Ok::<_, ResourceError>(new.clone());
    match library.create_in(container, wish, make).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => give_back(library, uploaded, error).await,
    }
}

async fn update(library: &Library, path: &ResourcePath, what: &What) -> Came {
    let resource = match library.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::told(refused(&error)),
    };
    let (update, uploaded) = match (resource.kind(), what) {
        (Kind::Binary(_), What::Bytes(token)) => match upload(library, path, token).await {
            Ok(uploaded) => (Update::Binary(uploaded.clone()), Some(uploaded)),
            Err(came) => return came,
        },
        (_, What::Statements(token) | What::Bytes(token)) => {
            let description = Bytes::from(token.clone());
            let membership = Membership::Basic;
            (Update::Description { description, membership, members_for: None, refers_to: Vec::new() }, None)
        }
        (_, What::Container) => return Came::told(Told::Refused("it stays what it is".to_owned())),
    };
    match library.update_resource(&resource, &update).await {
        Ok(Written { path, revision }) => written(&path, revision),
        Err(error) => give_back(library, uploaded, error).await,
    }
}

async fn delete(library: &Library, path: &ResourcePath) -> Came {
    let resource = match library.resource(path).await {
        Ok(resource) => resource,
        Err(error) => return Came::told(refused(&error)),
    };
    match library.delete_resource(&resource).await {
        Ok(()) => Came::told(Told::Done(None)),
        Err(error) => Came::told(refused(&error)),
    }
}

async fn read(library: &Library, path: &ResourcePath) -> Came {
    let life = library.options().plan_life;
    let began = library.clock().now();
    let resource = match library.resource(path).await {
        Ok(resource) => resource,
        Err(ResourceError::Absent(_) | ResourceError::Gone { .. }) => {
            return Came::seen(Seen::Resource { path: path.clone(), revision: None });
        }
        Err(ResourceError::Objects(error)) => {
            return damage(&error).unwrap_or_else(|| Came::told(refused_object(&error)));
        }
        Err(error) => return Came::told(refused(&error)),
    };
    let revision = match resource.kind() {
        Kind::Binary(binary) => resource.description_revision().max(binary.revision),
        _ => resource.description_revision(),
    };
    match wrong_with(library, &resource).await {
        Some(wrong) if library.clock().now().since(began) <= life => {
            Came::seen(Seen::Wrong(format!("/{path}: {wrong}")))
        }
        _ => Came::seen(Seen::Resource { path: path.clone(), revision: Some(revision) }),
    }
}

/// What is wrong with what a resource reads as.
async fn wrong_with(library: &Library, resource: &Resource) -> Option<String> {
    let damaged = |error: ObjectsError| error.is_damage().then(|| error.to_string());
    if let Err(error) = library.description(resource).await {
        return damaged(error);
    }
    let Kind::Binary(binary) = resource.kind() else { return None };
    match library.digests(resource, binary, &[DigestAlgorithm::Sha256]).await {
        Ok(digests) => {
            let is_right = digests.iter().all(|(_, digest)| digest[..] == binary.sha256);
            (!is_right).then(|| "its bytes are others".to_owned())
        }
        Err(error) => damaged(error),
    }
}

async fn list(library: &Library, container: &ResourcePath, page: usize) -> Came {
    let resource = match library.resource(container).await {
        Ok(resource) => resource,
        Err(error) => return Came::told(refused(&error)),
    };
    let mut names = BTreeSet::new();
    let mut after: Option<ListToken> = None;
    loop {
        let found = match library.children(&resource, after.as_ref(), page).await {
            Ok(found) => found,
            Err(error) => return damage(&error).unwrap_or_else(|| Came::told(refused_object(&error))),
        };
        for child in found.children {
            if !names.insert(child.name.clone()) {
                return Came::seen(Seen::Wrong(format!("/{container} lists {} twice", child.name)));
            }
        }
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    Came::seen(Seen::Children { container: container.clone(), incarnation: resource.incarnation(), names })
}

async fn list_volumes(library: &Library, page: usize) -> Came {
    let mut names = BTreeSet::new();
    let mut after: Option<ListToken> = None;
    loop {
        let found = match library.list(after.as_ref(), page).await {
            Ok(found) => found,
            Err(error) => return damage(&error).unwrap_or_else(|| Came::told(refused_object(&error))),
        };
        names.extend(found.volumes.iter().map(ToString::to_string));
        after = found.next;
        if after.is_none() {
            return Came::seen(Seen::Volumes(names));
        }
    }
}

/// A volume of one page or two that say the token.
fn volume(id: &VolumeId, token: &str) -> Result<VolumeParts<Cursor<Vec<u8>>>, zip::result::ZipError> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let (mut files, mut divs) = (String::new(), String::new());
    for seq in 1..=2 {
        let (name, text) = (format!("{seq:08}.txt"), format!("{token} page {seq}"));
        zip.start_file(format!("{}/{name}", id.cleaned_local()), options)?;
        zip.write_all(text.as_bytes())?;
        let md5 = hex::encode(Md5::digest(&text));
        files += &format!(
            r#"<METS:file ID="T{seq}" SIZE="{}" CHECKSUM="{md5}" CHECKSUMTYPE="MD5"><METS:FLocat xlink:href="{name}"/></METS:file>"#,
            text.len()
        );
        divs += &format!(r#"<METS:div TYPE="page" ORDER="{seq}"><METS:fptr FILEID="T{seq}"/></METS:div>"#);
    }
    let mets = format!(
        r#"<METS:mets xmlns:METS="http://www.loc.gov/METS/" xmlns:xlink="http://www.w3.org/1999/xlink" OBJID="{id}"><METS:fileSec><METS:fileGrp USE="ocr">{files}</METS:fileGrp></METS:fileSec><METS:structMap TYPE="physical"><METS:div>{divs}</METS:div></METS:structMap></METS:mets>"#
    );
    Ok(VolumeParts { id: Some(id.clone()), zip: zip.finish()?, mets: mets.into_bytes(), record: None })
}

async fn import(library: &Library, id: &VolumeId, token: &str) -> Came {
    let parts = match volume(id, token) {
        Ok(parts) => parts,
        Err(error) => return Came::seen(Seen::Wrong(error.to_string())),
    };
    match library.import(parts, Unchanged::Skip, |_| {}).await {
        Ok(Imported::New { id, revision, .. } | Imported::Replaced { id, revision, .. }) => {
            Came::told(Told::Done(Some((keys::volume_partition(&id), revision))))
        }
        Ok(Imported::Unchanged { .. }) => Came::told(Told::Done(None)),
        Err(error) => damage(&error).unwrap_or_else(|| Came::told(refused_object(&error))),
    }
}

fn somebody() -> Requester {
    Requester { name: Some("somebody".to_owned()), address: None, request_id: "r".to_owned() }
}

/// Reads all of a plan after a pause. What is missing within the plan's life must not be missing.
async fn stream(library: &Library, plan: &Arc<objects::BulkPlan>, pause: Duration) -> Came {
    let life = library.options().plan_life;
    tokio::time::sleep(pause).await;
    let mut stream = match library.stream(plan, pack::WHOLE, somebody()).await {
        Ok(stream) => stream,
        Err(error) => return damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
    };
    while let Some(piece) = stream.next().await {
        match piece {
            Ok(_) => {}
            Err(ObjectsError::Expired(why)) if library.clock().now().since(plan.started) < life => {
                return Came::seen(Seen::Wrong(format!("a plan ended too soon: {why}")));
            }
            Err(error) => return damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
        }
    }
    Came::told(Told::Done(None))
}

async fn read_volumes(library: &Library, volumes: Vec<VolumeId>, pause: Duration) -> Came {
    match library.plan(&BulkRequest::volumes(volumes), OnDamage::Break).await {
        Ok(plan) => stream(library, &plan, pause).await,
        Err(error) => damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
    }
}

async fn select(library: &Library, volumes: Vec<VolumeId>, world: &Mutex<World>) -> Came {
    let selected = library.select(&BulkRequest::volumes(volumes), &somebody(), SelectionTerms::default()).await;
    match selected {
        Ok(selection) => {
            let ends = selection.info.ends;
            let now = library.clock().now();
            let lasts = u64::try_from((ends.since(now) + library.options().plan_life).as_millis()).unwrap_or(0);
            let named = (0..).zip(selection.plan.volumes.iter());
            let volumes = named.filter_map(|(group, planned)| {
                Some((keys::volume_partition(&selection.plan.volume_id(group).ok()?), planned.generation))
            });
            let volumes = volumes.collect();
            let mut world = world.lock();
            let until_ms = world.true_ms() + lasts.saturating_sub(10);
            world.model.promises.push(Promise { selection: selection.info.id, until_ms, volumes });
            Came::told(Told::Done(None))
        }
        Err(error) => damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
    }
}

async fn read_selection(library: &Library, nth: usize, pause: Duration, world: &Mutex<World>) -> Came {
    let id = {
        let world = world.lock();
        let promises = &world.model.promises;
        match promises.len() {
            0 => return Came::told(Told::Done(None)),
            len => promises[nth % len].selection.clone(),
        }
    };
    match library.selection(&id, &objects::Party::Local).await {
        Ok(plan) => stream(library, &plan, pause).await,
        Err(error) => damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
    }
}

/// One of the passes in the background.
pub(crate) async fn tend(library: &Library, tend: Tend) -> Came {
    let done = match tend {
        Tend::ResumeDeletions => library.resume_deletions(Duration::ZERO).await.map(|_| ()),
        Tend::EmptyContainers => library.empty_deleted_containers().await.map(|_| ()),
        Tend::Collect => library.collect_once(CollectLimits::default()).await.map(|_| ()),
        Tend::CollectVersions => library.collect_versions().await.map(|_| ()),
        Tend::CollectContents => library.collect_contents().await.map(|_| ()),
        Tend::Grow => library.grow_containers().await.map(|_| ()),
        Tend::SweepSelections => library.sweep_selections().await.map(|_| ()),
        Tend::SweepStore => {
            let call = Call::new(Class::Record, Deadline::within(Duration::from_secs(30)));
            library.store().sweep(call).await.map(|_| ()).map_err(ObjectsError::from)
        }
    };
    match done {
        Ok(()) => Came::told(Told::Done(None)),
        Err(error) => damage(&error).unwrap_or_else(|| Came::told(Told::Unknown(error.to_string()))),
    }
}

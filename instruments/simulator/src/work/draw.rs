//! Draws the next operation, according to the theme of the world.

use std::collections::BTreeSet;
use std::time::Duration;

use hathi::VolumeId;
use heads::ResourcePath;

use super::versions::READ_MAX;
use super::{CONTAINERS, Does, End, GROUPS, Tend, Transact, VOLUMES, What, Work, parsed, volume_id};
use crate::chance::Chance;
use crate::setup::{EXPLICIT, Setup, Theme};

/// Names in the root that transactions change. Some of them others change too.
const TRANSACTED: [&str; 5] = ["n0", "n1", "x0", "x1", "x2"];

/// Resources of which clients ask for versions, send some, restore and remove some, and which they
/// bring back: those of a tree with explicit versions, and others.
pub(crate) const VERSIONED: [&str; 4] = [EXPLICIT, "a/n0", "a/n1", "n0"];

/// Names in archival groups.
const PARTS: [&str; 2] = ["p0", "p1"];

/// Names in containers.
const NAMES: [&str; 3] = ["n0", "n1", "c"];

impl Work {
    /// The next operation.
    pub(crate) fn draw(chance: &mut Chance, number: u64, setup: &Setup) -> Self {
        if setup.has_groups && chance.permille(500) {
            return Self::about_groups(chance, number);
        }
        if setup.has_transactions && chance.permille(400) {
            return Self::about_transactions(chance, number);
        }
        if setup.has_versions && chance.permille(350) {
            return Self::about_versions(chance, number);
        }
        match setup.theme {
            Theme::Mixed => Self::any(chance, number),
            Theme::Crowded | Theme::Apart => Self::crowded(chance, number),
            Theme::Volumes => Self::about_volumes(chance, number),
            Theme::Collecting => Self::about_collecting(chance, number, setup.options.plan_life),
            Theme::Rewriting => Self::about_rewriting(chance, number),
            Theme::Patient { imports, selects } => {
                Self::about_patience(chance, number, setup.options.plan_life, imports, selects)
            }
            Theme::Nested { is_flat: true } => Self::about_names(chance, number),
            Theme::Nested { is_flat: false } => Self::about_nesting(chance, number),
        }
    }

    /// An operation on a container and its children.
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

    /// An operation on two volumes.
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

    /// An operation on volumes that are replaced, read and collected at the same time.
    fn about_collecting(chance: &mut Chance, number: u64, plan_life: Duration) -> Self {
        let volume = volume_id(VOLUMES[usize::from(chance.permille(250))]);
        let volumes = match chance.permille(400) {
            true => VOLUMES[..2].iter().map(|id| volume_id(id)).collect(),
            false => vec![volume.clone()],
        };
        let mut pause = || Duration::from_millis(chance.below(u64::try_from(plan_life.as_millis()).unwrap_or(1)));
        let (pause, nth) = (pause(), usize::try_from(chance.below(100)).unwrap_or(0));
        match chance.below(100) {
            0..=29 => Self::Import { volume, token: format!("t{number}") },
            30..=32 => Self::DeleteVolume { volume },
            33..=54 => Self::ReadVolumes { volumes, pause },
            55..=65 => Self::Select { volumes },
            66..=68 => Self::ReadSelection { nth, pause },
            _ => Self::Tend(Tend::Collect),
        }
    }

    /// An operation on volumes that are replaced now and then, and read and collected all the time.
    /// Each plan and selection names two volumes, so that time passes between the reads of their
    /// heads.
    fn about_patience(chance: &mut Chance, number: u64, plan_life: Duration, imports: u64, selects: bool) -> Self {
        let volume = volume_id(VOLUMES[usize::from(chance.permille(150))]);
        let volumes = VOLUMES[..2].iter().map(|id| volume_id(id)).collect();
        let pause = Duration::from_millis(chance.below(u64::try_from(plan_life.as_millis()).unwrap_or(1)));
        if chance.below(100) < imports {
            return Self::Import { volume, token: format!("t{number}") };
        }
        match chance.below(100) {
            0 => Self::DeleteVolume { volume },
            1..=36 => Self::ReadVolumes { volumes, pause },
            37..=52 if selects => Self::Select { volumes },
            53..=55 if selects => Self::ReadSelection { nth: usize::try_from(chance.below(100)).unwrap_or(0), pause },
            _ => Self::Tend(Tend::Collect),
        }
    }

    /// An operation on a name in the root that is used again and again while all servers list it.
    fn about_names(chance: &mut Chance, number: u64) -> Self {
        let path = parsed(if chance.permille(850) { "n0" } else { "n1" });
        match chance.below(100) {
            0..=22 => Self::Create { path, what: What::Statements(format!("t{number}")) },
            23..=38 => Self::Update { path, what: What::Statements(format!("t{number}")) },
            39..=52 => Self::Delete { path },
            53..=66 => Self::RemoveTombstone { path },
            67..=96 => Self::List { container: parsed(""), page: 2 },
            _ => Self::Tend(*chance.one_of(&Tend::ALL)),
        }
    }

    /// An operation on nested containers, which are created and deleted with their contents.
    fn about_nesting(chance: &mut Chance, number: u64) -> Self {
        let token = format!("t{number}");
        let what = if chance.permille(300) { What::Bytes(token) } else { What::Statements(token) };
        let [outer, inner, child] = [parsed("a"), parsed("a/c"), parsed("a/n0")];
        match chance.below(100) {
            0..=15 => Self::Create { path: inner, what: What::Container },
            16..=25 => Self::Create { path: outer, what: What::Container },
            26..=40 => Self::Create { path: child, what },
            41..=44 => Self::Create { path: parsed("a/c/n0"), what },
            45..=54 => Self::Delete { path: outer },
            55..=58 => Self::Delete { path: inner },
            59..=62 => Self::Delete { path: child },
            63..=70 => Self::RemoveTombstone { path: outer },
            71..=73 => Self::RemoveTombstone { path: inner },
            74..=75 => Self::RemoveTombstone { path: child },
            76..=93 => Self::List { container: outer, page: 3 },
            94..=96 => Self::Tend(Tend::ResumeDeletions),
            _ => Self::Tend(*chance.one_of(&Tend::ALL)),
        }
    }

    /// An operation on children that are created and deleted while their marks are rewritten.
    fn about_rewriting(chance: &mut Chance, number: u64) -> Self {
        let token = format!("t{number}");
        let (container, volume) = (parsed("a"), volume_of(chance));
        let child = parsed(&format!("a/{}", chance.one_of(&NAMES)));
        match chance.below(100) {
            0..=25 => Self::Create { path: child, what: What::Statements(token) },
            26..=30 => Self::Create { path: container, what: What::Container },
            31..=49 => Self::Delete { path: child },
            50 => Self::Delete { path: container },
            51..=59 => Self::RemoveTombstone { path: child },
            60..=61 => Self::RemoveTombstone { path: container },
            62..=67 => Self::List { container, page: chance.place(3) + 1 },
            68..=73 => Self::Import { volume, token },
            74..=77 => Self::DeleteVolume { volume },
            78..=79 => Self::ListVolumes { page: 2 },
            80..=90 => Self::Tend(Tend::Grow),
            _ => Self::Tend(Tend::Collect),
        }
    }

    /// An operation on versions, or on a resource that has some: in a tree where only those are
    /// kept that were asked for, and elsewhere.
    fn about_versions(chance: &mut Chance, number: u64) -> Self {
        let path = parsed(chance.one_of::<&str>(&VERSIONED));
        let token = format!("t{number}");
        let what = if chance.permille(300) { What::Bytes(token) } else { What::Statements(token) };
        match chance.below(20) {
            0..=2 => Self::AskForVersion { path },
            // The number says the rest, so that no draw is added.
            3 | 12 => Self::SendVersion { path, nth: number, token: format!("t{number}") },
            4 | 13 => Self::Restore { path, nth: usize::try_from(number).unwrap_or(0) },
            5..=7 => Self::RemoveVersion { path, nth: chance.place(8) },
            8..=9 => Self::ReadVersions { path, max: READ_MAX },
            10 => Self::BringBack { path, nth: usize::try_from(number).unwrap_or(0) },
            11 => Self::Update { path, what },
            14..=15 if path.as_str() == EXPLICIT => Self::Create { path, what: What::Container },
            14..=15 => Self::Create { path, what },
            16 if path.as_str() == EXPLICIT => Self::CreateOver { path, what: What::Container },
            16 => Self::CreateOver { path, what },
            17 => Self::Delete { path },
            18 => Self::RemoveTombstone { path },
            _ => Self::Tend(Tend::CollectVersions),
        }
    }

    /// A transaction on some names in the root, where other operations meet it; or a pass over
    /// transactions.
    fn about_transactions(chance: &mut Chance, number: u64) -> Self {
        let path = parsed(chance.one_of::<&str>(&TRANSACTED));
        match chance.below(8) {
            0 | 1 => return Self::Tend(Tend::EndTransactions),
            2 => return Self::Update { path, what: What::Statements(format!("t{number}")) },
            3 => return Self::Create { path, what: What::Statements(format!("t{number}")) },
            _ => {}
        }
        Self::Transact(Transact::draw(chance, number, |chance| parsed(chance.one_of::<&str>(&TRANSACTED))))
    }

    /// A transaction on archival groups, what is in them and names beside them; or what others do
    /// there meanwhile. What is in a group is created by `Post`, so that no group is missing above.
    fn about_groups(chance: &mut Chance, number: u64) -> Self {
        let token = format!("t{number}");
        let (group, name) = (*chance.one_of(&GROUPS), *chance.one_of(&PARTS));
        let (container, part) = (parsed(group), parsed(&format!("{group}/{name}")));
        match chance.below(16) {
            0 | 1 => Self::Tend(Tend::EndTransactions),
            2 | 3 => Self::Update { path: part, what: What::Statements(token) },
            4 => Self::Update { path: container, what: What::Statements(token) },
            5 | 6 => Self::Post { container, wish: Some(name.to_owned()), what: What::Bytes(token) },
            7 => Self::Delete { path: part },
            8 => Self::RemoveTombstone { path: part },
            9 => Self::Create { path: container, what: What::Group(token) },
            10 if group == GROUPS[0] => Self::Delete { path: container },
            11 if group == GROUPS[0] => Self::RemoveTombstone { path: container },
            10 | 11 => Self::List { container, page: 2 },
            _ => Self::Transact(Transact::draw(chance, number, |chance| match chance.below(10) {
                0..=6 => parsed(&format!("{group}/{}", chance.one_of(&PARTS))),
                7 => parsed(group),
                _ => parsed(chance.one_of::<&str>(&TRANSACTED)),
            })),
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
}

impl Transact {
    /// A transaction on some paths. It deletes no group.
    fn draw(chance: &mut Chance, number: u64, path: impl Fn(&mut Chance) -> ResourcePath) -> Self {
        let steps = (0..=chance.place(4)).map(|nth| {
            let drawn = chance.below(10);
            let path = path(chance);
            let does = match drawn {
                0 if !GROUPS.contains(&&*path.to_string()) => Does::Delete,
                _ => Does::Put { token: format!("t{number}-{nth}-"), is_bytes: drawn > 6 },
            };
            (path, does)
        });
        let steps = steps.collect();
        let end = match chance.below(10) {
            0..=4 => End::Commit,
            5..=7 => End::CommitBeside,
            8 => End::RollBack,
            _ => End::Leave,
        };
        Self { steps, end }
    }
}

fn path_of(chance: &mut Chance) -> ResourcePath {
    let container = *chance.one_of(&CONTAINERS[..4]);
    let name = *chance.one_of(&NAMES);
    let text = if container.is_empty() { name.to_owned() } else { format!("{container}/{name}") };
    parsed(&text)
}

fn container_of(chance: &mut Chance) -> ResourcePath {
    parsed(chance.one_of::<&str>(&CONTAINERS))
}

fn volume_of(chance: &mut Chance) -> VolumeId {
    volume_id(chance.one_of::<&str>(&VOLUMES))
}

fn container_or(chance: &mut Chance) -> ResourcePath {
    parsed(CONTAINERS[1 + chance.place(CONTAINERS.len() - 1)])
}

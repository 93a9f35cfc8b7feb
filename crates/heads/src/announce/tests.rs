#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::ManualClock;
use store::null::NullStore;

use super::*;
use crate::options::LibraryOptions;
use crate::surroundings::Surroundings;

#[test]
fn announcements_have_these_bytes_and_are_read_from_them() {
    let changes = [Change::Created, Change::Updated, Change::Deleted];
    let kinds = [
        ObjectKind::Volume,
        ObjectKind::RdfSource,
        ObjectKind::BasicContainer,
        ObjectKind::DirectContainer,
        ObjectKind::IndirectContainer,
        ObjectKind::Binary,
    ];
    for (change, kind, is_certain) in (0..6).map(|n| (n % 3, n, n % 2 == 0)) {
        let announcement = Announcement {
            change: changes[change],
            kind: kinds[kind],
            object: Bytes::from_static(b"r/a"),
            revision: RevisionId([7; 16]),
            at: UnixMillis(1_000),
            is_certain,
            actor: None,
            agent: None,
            is_removal: false,
        };
        let numbers = [u8::try_from(change).unwrap(), u8::try_from(kind).unwrap()];
        let payload = [&numbers[..], b"\x03r/a", &[7; 16], &[0xe8, 7], &[u8::from(is_certain)]].concat();
        let sealed = head::seal_for(FormatLevel::NEWEST, &announcement).unwrap();
        assert_eq!(sealed, envelope::seal_version(ValueKind::Announcement, 1, &payload));
        assert_eq!(Announcement::decode(1, &payload).unwrap(), announcement);
        assert!(Announcement::decode(1, &[&payload[..], &[0]].concat()).is_err());
        let named = Announcement { actor: Some("importer".to_owned()), ..announcement.clone() };
        let longer = [&payload[..], b"\x01\x08importer"].concat();
        let sealed = head::seal_for(FormatLevel::ACTORS, &named).unwrap();
        assert_eq!(sealed, envelope::seal_version(ValueKind::Announcement, 2, &longer));
        assert_eq!(Announcement::decode(2, &longer).unwrap(), named);
        let earlier = head::seal_for(FormatLevel::SCOPES, &named).unwrap();
        assert_eq!(earlier, envelope::seal_version(ValueKind::Announcement, 1, &payload), "it is left out");
    }
}

#[test]
fn announcements_of_groups_have_these_bytes_and_are_read_from_them() {
    let kinds = [(ObjectKind::BasicGroup, 6), (ObjectKind::DirectGroup, 7), (ObjectKind::IndirectGroup, 8)];
    for ((kind, number), actor) in kinds.into_iter().zip([None, Some("importer".to_owned()), None]) {
        let name = if actor.is_some() { &b"\x01\x08importer"[..] } else { &[0] };
        let payload = [&[1, number][..], b"\x03r/a", &[7; 16], &[0xe8, 7, 1], name].concat();
        let announcement = Announcement {
            change: Change::Updated,
            kind,
            object: Bytes::from_static(b"r/a"),
            revision: RevisionId([7; 16]),
            at: UnixMillis(1_000),
            is_certain: true,
            actor,
            agent: None,
            is_removal: false,
        };
        let sealed = head::seal_for(FormatLevel::GROUPS, &announcement).unwrap();
        assert_eq!(sealed, envelope::seal_version(ValueKind::Announcement, 3, &payload));
        assert_eq!(Announcement::decode(3, &payload).unwrap(), announcement);
        assert!(Announcement::decode(3, &[&payload[..], &[0]].concat()).is_err());
    }
}

#[test]
fn announcements_that_name_a_program_have_these_bytes_and_are_read_from_them() {
    for (kind, number) in [(ObjectKind::Binary, 5), (ObjectKind::BasicGroup, 6)] {
        let announcement = Announcement {
            change: Change::Updated,
            kind,
            object: Bytes::from_static(b"r/a"),
            revision: RevisionId([7; 16]),
            at: UnixMillis(1_000),
            is_certain: true,
            actor: Some("importer".to_owned()),
            agent: Some("curl/8".to_owned()),
            is_removal: false,
        };
        let names = b"\x01\x08importer\x01\x06curl/8";
        let payload = [&[1, number][..], b"\x03r/a", &[7; 16], &[0xe8, 7, 1], names].concat();
        let sealed = head::seal_for(FormatLevel::AGENTS, &announcement).unwrap();
        assert_eq!(sealed, envelope::seal_version(ValueKind::Announcement, 4, &payload));
        assert_eq!(Announcement::decode(4, &payload).unwrap(), announcement);
        assert!(Announcement::decode(4, &[&payload[..], &[0]].concat()).is_err());
        assert!(Announcement::decode(3, &payload).is_err(), "it ends before the program");
    }
}

#[test]
fn announcements_of_removed_versions_have_these_bytes_and_are_read_as_nothing_else() {
    let announcement = Announcement {
        change: Change::Updated,
        kind: ObjectKind::Binary,
        object: Bytes::from_static(b"r/a"),
        revision: RevisionId([7; 16]),
        at: UnixMillis(1_000),
        is_certain: true,
        actor: None,
        agent: None,
        is_removal: true,
    };
    let payload = [&[1, 5][..], b"\x03r/a", &[7; 16], &[0xe8, 7, 1, 0, 0]].concat();
    let sealed = head::seal_for(FormatLevel::VERSION_MARKS, &announcement).unwrap();
    assert_eq!(sealed, envelope::seal_version(ValueKind::Announcement, 5, &payload));
    assert_eq!(Announcement::decode(5, &payload).unwrap(), announcement);
    assert!(!Announcement::decode(4, &payload).unwrap().is_removal);
    assert!(Announcement::decode(5, &[&payload[..], &[0]].concat()).is_err());
    assert!(Announcement::decode(6, &payload).is_err());
}

#[test]
fn changes_of_a_single_object_are_spread_evenly_over_the_partitions_of_a_bucket() {
    let clock = Arc::new(ManualClock::new(UnixMillis(1_750_000_000_000)));
    let surroundings = Surroundings::of_this_machine(clock.clone());
    let heads = Heads::new(Arc::new(NullStore::new()), surroundings, LibraryOptions::default());
    let announcement = Announcement {
        change: Change::Updated,
        kind: ObjectKind::RdfSource,
        object: Bytes::from_static(b"r/a"),
        revision: RevisionId([7; 16]),
        at: UnixMillis(1_000),
        is_certain: true,
        actor: None,
        agent: None,
        is_removal: false,
    };
    let mut changes: BTreeMap<Bytes, u32> = BTreeMap::new();
    for _ in 0..16_000 {
        clock.advance(Duration::from_millis(3));
        let announcing = heads.begin_to_announce(&announcement, RevisionId::ZERO).unwrap();
        *changes.entry(announcing.steps.last().unwrap().partition().clone()).or_default() += 1;
        announcing.ended(true);
    }
    assert_eq!(changes.len(), usize::from(FEED_SHARDS));
    assert!(changes.values().all(|changes| (900..1_100).contains(changes)), "{changes:?}");
}

#[test]
fn keys_of_the_feed_have_these_bytes() {
    assert_eq!(keys::feed(0x0102_0304, 5), &b"feed\0c\x01\x02\x03\x04\x05"[..]);
    assert_eq!(keys::feed_buckets(0x0102_0304), &b"feed\0b\x01\x02\x03\x04"[..]);
    assert_eq!(keys::feed_bucket(0x0102_0304), &[1, 2, 3, 4][..]);
    assert_eq!((keys::feed_ends(), keys::feed_newest()), (Bytes::from("feed\0e"), Bytes::from("newest")));
    assert_eq!(keys::feed_dropped(), "dropped");
    assert_eq!(feed_bucket_of(RevisionId::first_at(UnixMillis(600_000 * 7 + 599_999))), 7);
    let sealed = envelope::seal(ValueKind::FeedBucket, &7_u32.to_be_bytes());
    assert_eq!(open_bucket(&sealed).unwrap(), 7);
    assert!(open_bucket(&Bytes::from_static(b"none")).is_err());
}

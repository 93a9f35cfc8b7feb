#![allow(clippy::unwrap_used)]
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use store::ManualClock;
use store::null::NullStore;

use super::*;
use crate::options::LibraryOptions;
use crate::surroundings::Surroundings;

/// A change of these bytes is a change of the stored format.
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
        ObjectKind::BasicGroup,
        ObjectKind::DirectGroup,
        ObjectKind::IndirectGroup,
    ];
    let names: [(Option<&str>, Option<&str>, &[u8]); 3] = [
        (None, None, &[0, 0]),
        (Some("importer"), None, b"\x01\x08importer\x00"),
        (Some("importer"), Some("curl/8"), b"\x01\x08importer\x01\x06curl/8"),
    ];
    for (n, kind) in kinds.into_iter().enumerate() {
        let (change, (actor, agent, names)) = (changes[n % 3], names[n / 3]);
        let (is_certain, is_removal) = (n % 2 == 0, n % 4 < 2);
        let announcement = Announcement {
            change,
            kind,
            object: Bytes::from_static(b"r/a"),
            revision: RevisionId([7; 16]),
            at: UnixMillis(1_000),
            is_certain,
            actor: actor.map(str::to_owned),
            agent: agent.map(str::to_owned),
            is_removal,
        };
        let numbers = [n % 3, n].map(|number| u8::try_from(number).unwrap());
        let [certain, removal] = [is_certain, is_removal].map(u8::from);
        let payload = [&numbers[..], b"\x03r/a", &[7; 16], &[0xe8, 7], &[certain], names, &[removal]].concat();
        let sealed = head::seal(&announcement).unwrap();
        assert_eq!(sealed, envelope::seal(ValueKind::Announcement, &payload));
        assert_eq!(Announcement::decode(1, &payload).unwrap(), announcement);
        for len in 0..payload.len() {
            assert!(Announcement::decode(1, &payload[..len]).is_err(), "{announcement:?} is read from {len} bytes");
        }
        assert!(Announcement::decode(1, &[&payload[..], &[0]].concat()).is_err());
        assert!(Announcement::decode(2, &payload).is_err());
    }
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

//! The stored bytes of heads of version 1. Every later program reads them.

#![allow(clippy::unwrap_used)]

use pack::{Member, Sums};
use store::{ContentId, Stored, UnixMillis, ValueKind, envelope};

use super::*;
use crate::claim::TransactionId;
use crate::container_body::{MoreShards, ShardEpochs};
use crate::resource_body::{
    Binary, BytesPlace, Elsewhere, Handling, Kind, MemberRule, Membership, Relation, StoredDescription,
};
use crate::volume_body::{Entry, FramePlace};

fn revision(byte: u8) -> RevisionId {
    RevisionId([byte; 16])
}

fn head(state: ObjectState, body: Body) -> Head {
    Head {
        state,
        incarnation: revision(1),
        parent_incarnation: revision(2),
        revision: revision(3),
        logged: 300,
        collected: Some(revision(4)),
        floor: revision(5),
        condemned: Some(Condemned { named: revision(6), floor: revision(7), at: UnixMillis(1_000) }),
        body,
        announced: revision(12),
        claim: None,
        is_group: false,
    }
}

fn shards() -> ContainerBody {
    ContainerBody {
        shards: 4,
        first_epoch: 1,
        rewritten: vec![
            ShardEpochs { shard: 2, current: 2, next: None },
            ShardEpochs { shard: 3, current: 2, next: Some(3) },
        ],
        growing: Some(MoreShards { shards: 16, first_epoch: 4 }),
    }
}

fn volume() -> VolumeBody {
    let entry = |at: u32| Entry {
        seq: 0,
        member: Member { size: at + 1, frame_len: at + 2, crc32: at + 3 },
        place: FramePlace { pack: at + 4, offset: at + 5 },
    };
    VolumeBody {
        generation: revision(8),
        pages: Sums { count: 1, bytes: 2, frame_bytes: 3, stored_bytes: 4 },
        pages_crc32: 5,
        mets: entry(10),
        record: Some(entry(20)),
        damaged: 6,
        members_digest: [7; 32],
        mets_sha256: [8; 32],
        record_sha256: Some([9; 32]),
        rights: Some("r".to_owned()),
        access_profile: Some("a".to_owned()),
        title: Some("t".to_owned()),
        pub_date: Some("p".to_owned()),
        language: None,
    }
}

fn resource(kind: Kind) -> Body {
    let description = StoredDescription { revision: revision(9), pieces: 2, sha256: [10; 32] };
    Body::Resource(ResourceBody { kind, description })
}

fn binary(place: BytesPlace) -> Body {
    let disposition = Some("d".to_owned());
    let media_type = "m".to_owned();
    resource(Kind::Binary(Binary {
        revision: revision(11),
        place,
        len_bytes: 12,
        sha256: [13; 32],
        media_type,
        disposition,
    }))
}

fn container(membership: Membership) -> Body {
    resource(Kind::Container { membership, children: ContainerBody::new(4) })
}

/// Heads that together have every field and every variant, and their payloads without the last
/// fields: `announced`, `claim` and `is_group`.
fn golden() -> Vec<(Head, Vec<u8>)> {
    let begin = |state: u8| {
        let collected = [&[1][..], &[4; 16]].concat();
        let condemned = [&[1][..], &[6; 16], &[7; 16], &[0xe8, 7]].concat();
        [&[state][..], &[1; 16], &[2; 16], &[3; 16], &[0xac, 2], &collected, &[5; 16], &condemned].concat()
    };
    let described = [&[9; 16][..], &[2], &[10; 32]].concat();
    let of_binary =
        |place: &[u8]| [&[3, 2][..], &[11; 16], place, &[12], &[13; 32], b"\x01m\x01\x01d", &described].concat();
    let of_container = |membership: &[u8]| [&[3, 1][..], membership, &[4, 0, 0, 0], &described].concat();
    let rule = |relation| MemberRule { resource: "s".to_owned(), relation };
    let has = || rule(Relation::HasMember("h".to_owned()));
    let is_of = || rule(Relation::IsMemberOf("i".to_owned()));
    let url = || "u".to_owned();
    let of_volume = [
        &[2][..],
        &[8; 16],
        &[1, 2, 3, 4, 5],
        &[0, 11, 12, 13, 14, 15],
        &[1, 0, 21, 22, 23, 24, 25],
        &[6],
        &[7; 32],
        &[8; 32],
        &[1],
        &[9; 32],
        b"\x01\x01r\x01\x01a\x01\x01t\x01\x01p\x00",
    ];
    let all: Vec<(ObjectState, u8, Body, Vec<u8>)> = vec![
        (ObjectState::Free, 3, Body::Nothing, vec![0]),
        (ObjectState::Deleted, 2, Body::Nothing, vec![0]),
        (ObjectState::Deleting, 1, Body::Container(shards()), vec![1, 4, 1, 2, 2, 2, 0, 3, 2, 1, 3, 1, 16, 4]),
        (ObjectState::Live, 0, Body::Volume(volume()), of_volume.concat()),
        (ObjectState::Live, 0, resource(Kind::RdfSource), [&[3, 0][..], &described].concat()),
        (ObjectState::Live, 0, container(Membership::Basic), of_container(&[0])),
        (ObjectState::Live, 0, container(Membership::Direct(has())), of_container(b"\x01\x01s\x00\x01h")),
        (
            ObjectState::Live,
            0,
            container(Membership::Indirect(is_of(), "n".to_owned())),
            of_container(b"\x02\x01s\x01\x01i\x01n"),
        ),
        (ObjectState::Live, 0, binary(BytesPlace::Row), of_binary(&[0])),
        (
            ObjectState::Live,
            0,
            binary(BytesPlace::Content(ContentId([14; 16]))),
            of_binary(&[&[1][..], &[14; 16]].concat()),
        ),
        (
            ObjectState::Live,
            0,
            binary(BytesPlace::Elsewhere(Elsewhere { url: url(), handling: Handling::Proxy })),
            of_binary(b"\x02\x01u\x00"),
        ),
        (
            ObjectState::Live,
            0,
            binary(BytesPlace::Elsewhere(Elsewhere { url: url(), handling: Handling::Redirect })),
            of_binary(b"\x02\x01u\x01"),
        ),
    ];
    let whole = |(state, number, body, payload): (ObjectState, u8, Body, Vec<u8>)| {
        (head(state, body), [begin(number), payload].concat())
    };
    all.into_iter().map(whole).collect()
}

#[test]
fn heads_have_these_bytes_and_are_read_from_them() {
    let claim = Claim { transaction: TransactionId([13; 16]), operation: revision(14) };
    let claims = [(None, vec![0]), (Some(claim), [&[1][..], &[13; 16], &[14; 16]].concat())];
    for (head, begin) in golden() {
        for ((claim, claimed), is_group) in claims.iter().zip([false, true]) {
            let head = Head { claim: *claim, is_group, ..head.clone() };
            let payload = [&begin[..], &[12; 16], claimed, &[u8::from(is_group)]].concat();
            assert_eq!(head.seal().unwrap(), envelope::seal(ValueKind::Head, &payload), "{head:?}");
            assert_eq!(Head::decode(1, &payload).unwrap(), head);
            for len in 0..payload.len() {
                assert!(Head::decode(1, &payload[..len]).is_err(), "{head:?} is read from {len} bytes");
            }
            assert!(
                Head::decode(1, &[&payload[..], &[0]].concat()).is_err(),
                "a later field of {head:?} would be lost"
            );
            assert_eq!(head.as_logged().claim, None, "an entry of the log would differ from writer to writer");
            assert_eq!(head.as_logged().is_group, is_group, "an earlier version of a group would be none");
        }
    }
}

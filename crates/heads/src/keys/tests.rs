#![allow(clippy::unwrap_used)]
use super::*;

const GENERATION: RevisionId = RevisionId([0; 16]);

#[test]
fn rows_of_a_volume_are_where_every_version_looks_for_them() {
    let volume = Bytes::from_static(b"v/t.a");
    let at = |sort: Bytes| partition_of(&volume, &sort);
    let in_part = |part: u32| Bytes::from([&b"v/t.a\0g"[..], &[0; 16], &part.to_be_bytes()].concat());
    assert_eq!(at(head()), volume);
    assert_eq!(at(generation(GENERATION)), volume);
    assert_eq!(generation(GENERATION)[..], [&[0x0A][..], &[0; 16]].concat());
    for first in [directory(GENERATION, 390), directory_copy(GENERATION, 390), damage(GENERATION, 100_002)] {
        assert_eq!(at(first), in_part(0));
    }
    assert_eq!([pack(GENERATION, 511), pack(GENERATION, 512)].map(at), [in_part(0), in_part(1)]);
    assert_eq!([fixity(GENERATION, 255), fixity(GENERATION, 256)].map(at), [in_part(0), in_part(1)]);
}

#[test]
fn partitions_beside_an_object_say_of_what_they_are() {
    let (volume, resource) = (Bytes::from_static(b"v/t.a"), Bytes::from_static(b"r/a"));
    let (part_7, written) = (part(&volume, GENERATION, 7), version(&resource, GENERATION));
    assert_eq!((object_of(&volume), object_of(&part_7), object_of(&written)), (volume.clone(), volume, resource));
    assert_eq!((part_of(&part_7), part_of(&written)), (Some((GENERATION, 7)), None));
    assert_eq!((version_of(&written), version_of(&part_7)), (Some(GENERATION), None));
    let list = received(b"r/a");
    assert_eq!((object_of(&list), version_of(&list), log_page_of(&list)), (Bytes::from_static(b"r/a"), None, None));
    assert_eq!([&list, &written, &object_of(&list)].map(|partition| is_received(partition)), [true, false, false]);
    let [first, later] = [0, 0x0102].map(|page| log_page(b"r/a", page));
    assert_eq!((log_page_of(&first), log_page_of(&later), log_page_of(&written)), (Some(0), Some(0x0102), None));
}

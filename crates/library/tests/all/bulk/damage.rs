//! Damage (known, unknown, of one replica only), and passing failures, which are not damage.

use std::sync::Arc;

use futures::StreamExt;
use heads::keys;
use pack::{Layout, Level};
use store::faults::{Fault, Harm, Kind};
use volumes::{BulkPlan, MissingPart, MissingReason, OnDamage};

use super::bench::{Bench, bench, bench_with, entries, entry, names, read, request, somebody, whole_volumes};

/// Four sample volumes, and the archive of all of them.
async fn samples() -> (Bench, Vec<hathi::VolumeId>, Arc<BulkPlan>, Vec<u8>) {
    let bench = bench().await;
    let ids = bench.add_samples(110).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let whole = bench.whole(&plan).await;
    (bench, ids, plan, whole)
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_first_found_while_streaming_breaks_it_visibly_and_asked_again_it_comes_whole() {
    for harm in [Harm::Lost, Harm::FlippedBit] {
        let (bench, ids, plan, whole) = samples().await;
        bench.harm_pack(&ids[1], 0, harm, false).await;
        let (bytes, error) = read(bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap()).await;
        let error = error.expect("a stream with damage must not end well");
        assert!(error.is_damage(), "{error}");
        assert!(error.to_string().starts_with(&format!("damaged: {}: page ", ids[1])), "{error}");
        assert!(bytes.len() < whole.len() && bytes == whole[..bytes.len()], "what was sent before it is good");

        let again = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
        assert_ne!(again.etag, plan.etag);
        let archive = bench.whole(&again).await;
        assert_eq!(again.len_bytes, Some(archive.len() as u64));
        let errors = entry(&archive, "ERROR.err");
        let damaged = format!("RepositoryException: damaged: {}[", ids[1]);
        assert!(errors.lines().skip(1).all(|line| line.starts_with(&damaged)), "{errors}");
        assert_eq!(errors.lines().count() - 1, again.missing.len());
        let sound: Vec<_> = entries(&archive).into_iter().filter(|(name, _)| name != "ERROR.err").collect();
        let mut expected = entries(&whole);
        expected.retain(|entry| sound.contains(entry));
        assert_eq!(sound, expected, "the rest is there, unchanged and in order");
        assert_eq!(sound.len() + again.missing.len(), entries(&whole).len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn known_damage_is_left_out_and_named_without_being_read() {
    let (bench, ids, _, whole) = samples().await;
    let volume = bench.library.volumes.volume(&ids[0]).await.unwrap();
    let page_count = u32::try_from(volume.body.pages.count).unwrap();
    for member in [4, page_count] {
        bench.library.volumes.mark_damaged(&ids[0], volume.revision, member, "by a test").await.unwrap();
    }
    let without_mets = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let parts = |plan: &BulkPlan| plan.missing.iter().map(|missing| (missing.part, missing.reason)).collect::<Vec<_>>();
    let page = |plan: &BulkPlan| matches!(parts(plan)[0], (MissingPart::Page(_), MissingReason::Damaged));
    assert!(page(&without_mets) && without_mets.missing.len() == 1);
    assert_eq!(bench.whole(&without_mets).await.len() as u64, without_mets.len_bytes.unwrap());
    let with_mets = bench.plan(&request(whole_volumes(&ids), Layout::Volumes, Level::Stored, true)).await;
    assert!(page(&with_mets) && parts(&with_mets)[1] == (MissingPart::Mets, MissingReason::Damaged));
    let archive = bench.whole(&with_mets).await;
    let mets = format!("{}.mets.xml", ids[0].cleaned());
    assert!(!names(&archive).contains(&mets) && names(&archive).len() == 2 * ids.len());
    // A verification clears the marks, because the data is sound; then everything is available
    // again.
    bench.library.volumes.verify(&ids[0]).await.unwrap();
    let cleared = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    assert!(bench.whole(&cleared).await == whole);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_directory_is_damaged_is_left_out_and_named() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let b = bench.add("t.b", &["two"]).await;
    let generation = bench.library.volumes.volume(&a).await.unwrap().body.generation;
    bench.lose(&a, keys::directory(generation, 0));
    bench.lose(&a, keys::directory_copy(generation, 0));
    let wanted = request(whole_volumes(&[a.clone(), b]), Layout::Pages, Level::Frames, false);
    let plan = bench.plan(&wanted).await;
    let (_, error) = read(bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap()).await;
    assert!(error.is_some_and(|error| error.is_damage()));
    let archive = bench.whole(&bench.plan(&wanted).await).await;
    assert_eq!(names(&archive), ["t.b/", "t.b/00000001.txt", "ERROR.err"]);
    assert!(entry(&archive, "ERROR.err").ends_with("\nRepositoryException: damaged: t.a\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_is_whole_as_long_as_its_directory_or_the_copy_of_it_is_there() {
    for lost in [keys::directory, keys::directory_copy] {
        let (bench, ids, plan, whole) = samples().await;
        let generation = bench.library.volumes.volume(&ids[1]).await.unwrap().body.generation;
        bench.lose(&ids[1], lost(generation, 0));
        assert!(bench.whole(&plan).await == whole);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_whose_head_is_damaged_is_left_out_and_named_and_hurts_no_other() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one"]).await;
    let b = bench.add("t.b", &["two"]).await;
    let (table, partition, sort) =
        (store::Table::Objects, heads::keys::volume_partition(&a), Some(heads::keys::head()));
    let harm = Harm::FlippedBit;
    bench.faults.damage(store::faults::Damage { table, partition, sort, harm, strong_reads_are_whole: false });
    let plan = bench.plan(&request(whole_volumes(&[a, b]), Layout::Pages, Level::Frames, false)).await;
    let archive = bench.whole(&plan).await;
    assert_eq!(names(&archive), ["t.b/", "t.b/00000001.txt", "ERROR.err"]);
    assert!(entry(&archive, "ERROR.err").ends_with("\nRepositoryException: damaged: t.a\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_of_one_replica_is_no_damage() {
    let (bench, ids, plan, whole) = samples().await;
    bench.harm_pack(&ids[1], 0, Harm::FlippedBit, true).await;
    bench.harm_pack(&ids[2], 0, Harm::Lost, true).await;
    assert!(bench.whole(&plan).await == whole);
    assert_eq!(bench.library.volumes.volume(&ids[1]).await.unwrap().body.damaged, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn in_report_mode_what_fails_is_left_out_at_a_page_boundary_and_named() {
    for layout in [Layout::Pages, Layout::Volumes, Layout::WordSeq] {
        let (bench, ids, _, _) = samples().await;
        let wanted = request(whole_volumes(&ids), layout, Level::Frames, false);
        let before = bench.whole(&bench.plan(&wanted).await).await;
        bench.harm_pack(&ids[1], 0, Harm::FlippedBit, false).await;
        let plan = bench.library.volumes.plan(&wanted, OnDamage::Report).await.unwrap();
        assert_eq!((plan.len_bytes, plan.etag.as_deref()), (None, None));
        let archive = bench.whole(&plan).await;
        let errors = entry(&archive, "ERROR.err");
        let damaged = format!("RepositoryException: damaged: {}[", ids[1]);
        assert!(
            errors.lines().count() > 1 && errors.lines().skip(1).all(|line| line.starts_with(&damaged)),
            "{errors}"
        );
        // The next request gets the same archive, because the damage is known by then.
        let again = bench.whole(&bench.plan(&wanted).await).await;
        assert_eq!(entries(&again), entries(&archive), "{layout:?}");
        assert_ne!(entries(&again), entries(&before));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_that_does_not_inflate_to_its_text_is_found_when_it_is_recompressed() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two"]).await;
    let wanted = request(whole_volumes(std::slice::from_ref(&a)), Layout::Pages, Level::Recompressed(1), false);
    let plan = bench.plan(&wanted).await;
    // The same plan, but with an archive that is wrong about page 2.
    let mut archive = (*plan.archive).clone();
    let mut members = Vec::new();
    for seq in [1, 2] {
        let page = bench.library.volumes.page(&a, hathi::Seq::new(seq).unwrap()).await.unwrap();
        let crc32 = page.entry.member.crc32 ^ u32::from(seq == 2);
        members.push(pack::PageMember { seq, member: pack::Member { crc32, ..page.entry.member } });
    }
    archive.groups[0].pages = pack::GroupPages::Some(members.into());
    let volume = &plan.volumes[0];
    let entries = bench.library.volumes.entries(&a, volume.generation, 0..2).await.unwrap();
    let planned = (0..).zip(&entries).map(|(index, entry)| volumes::bulk::PlannedPage { index, place: entry.place });
    let volumes = [volumes::bulk::PlannedVolume { pages: planned.collect(), ..volume.clone() }];
    let wrong = Arc::new(BulkPlan {
        archive: Arc::new(archive),
        volumes: Arc::new(volumes),
        len_bytes: None,
        etag: None,
        missing: Vec::new(),
        memory: None,
        ..*plan
    });
    let (_, error) = read(bench.library.volumes.stream(&wrong, pack::WHOLE, somebody()).await.unwrap()).await;
    assert!(error.is_some_and(|error| error.is_damage()));
    let revision = bench.library.volumes.volume(&a).await.unwrap().revision;
    assert_eq!(
        bench.library.volumes.damaged_members(&a, revision).await.unwrap(),
        [1],
        "marked before the end was reported"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_that_pass_are_tried_again_and_mark_nothing() {
    let (bench, ids, plan, whole) = samples().await;
    let mut stream = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    bench.faults.next(Kind::Read, Fault::Unavailable);
    bench.faults.next(Kind::Read, Fault::DeadlinePassed);
    let mut bytes = stream.next().await.unwrap().unwrap().to_vec();
    let (rest, error) = read(stream).await;
    assert!(error.is_none(), "{error:?}");
    bytes.extend(rest);
    assert!(bytes == whole);
    for id in &ids {
        assert_eq!(bench.library.volumes.volume(id).await.unwrap().body.damaged, 0);
    }
}

#[tokio::test]
async fn a_store_that_stays_away_ends_the_stream_visibly_so_that_the_client_resumes() {
    let options = heads::LibraryOptions { read_ahead_bytes: 0, ..heads::LibraryOptions::default() };
    let bench = bench_with(options).await;
    let ids = bench.add_samples(110).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let whole = bench.whole(&plan).await;
    let mut stream = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    let mut bytes = stream.next().await.unwrap().unwrap().to_vec();
    bench.crash().await;
    // The store does not answer any more, so the retries need not wait for real time.
    tokio::time::pause();
    let (rest, error) = read(stream).await;
    bytes.extend(rest);
    assert!(error.is_some_and(|error| error.is_passing()));
    assert!(bytes.len() < whole.len() && bytes == whole[..bytes.len()]);
    tokio::time::resume();
    bench.faults.revive();
    let resumed = bench.part(&plan, bytes.len() as u64..plan.len_bytes.unwrap()).await;
    assert!(resumed == whole[bytes.len()..]);
}

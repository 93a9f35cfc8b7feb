//! A download that breaks off anywhere resumes and ends byte-identical.

use futures::StreamExt;
use pack::{Layout, Level};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use store::faults::Harm;
use volumes::Unchanged;

use super::bench::{bench, bench_with, entries, pages, request, somebody, whole_volumes};
use crate::support::{samples, volume};

#[tokio::test(flavor = "multi_thread")]
async fn every_layout_resumes_at_any_byte_with_the_same_bytes() {
    const SEED: u64 = 20;
    let bench = bench().await;
    let ids = bench.add_samples(110).await;
    assert_eq!(ids.len(), 4);
    let mut wanted = whole_volumes(&ids);
    wanted[1] = pages(&ids[1], &[20, 3, 7]);
    let mut random = StdRng::seed_from_u64(SEED);
    for layout in [Layout::Pages, Layout::Volumes, Layout::WordSeq] {
        for level in [Level::Frames, Level::Stored] {
            let plan = bench.plan(&request(wanted.clone(), layout, level, layout != Layout::WordSeq)).await;
            let whole = bench.whole(&plan).await;
            let len = plan.len_bytes.unwrap();
            assert_eq!(whole.len() as u64, len, "{layout:?} {level:?}");
            assert_eq!(entries(&whole).len() as u64, plan.entries);
            for _ in 0..8 {
                let start = random.random_range(0..len);
                let end = random.random_range(start..=len);
                let part = bench.part(&plan, start..end).await;
                assert!(
                    part == whole[start as usize..end as usize],
                    "{layout:?} {level:?} {start}..{end}, seed {SEED}"
                );
            }
            assert!(bench.part(&plan, len..len).await.is_empty());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_holds_the_texts_and_the_mets_that_came_in() {
    let bench = bench().await;
    let ids = bench.add_samples(100).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, true)).await;
    let mut found = entries(&bench.whole(&plan).await).into_iter();
    for id in &ids {
        let files = samples().into_iter().find(|files| files.id.as_ref() == Some(id)).unwrap();
        let mut source = hathi::VolumeReader::new(files.open().unwrap()).unwrap();
        let folder = id.cleaned();
        assert_eq!(found.next().unwrap(), (format!("{folder}/"), String::new()));
        for index in 0..source.page_count() {
            let page = source.read_page(index).unwrap();
            let text = String::from_utf8(page.text).unwrap();
            assert_eq!(found.next().unwrap(), (format!("{folder}/{:08}.txt", page.seq.get()), text));
        }
        let mets = String::from_utf8(source.mets_bytes().to_vec()).unwrap();
        assert_eq!(found.next().unwrap(), (format!("{folder}/mets.xml"), mets));
    }
    assert_eq!(found.next(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recompressed_archive_has_no_length_and_the_same_texts() {
    let bench = bench().await;
    let ids = bench.add_samples(30).await;
    for layout in [Layout::Pages, Layout::Volumes, Layout::WordSeq] {
        let as_stored = bench.plan(&request(whole_volumes(&ids), layout, Level::Frames, false)).await;
        let plan = bench.plan(&request(whole_volumes(&ids), layout, Level::Recompressed(9), false)).await;
        assert_eq!((plan.len_bytes, plan.etag.as_deref()), (None, None));
        assert_eq!(entries(&bench.whole(&plan).await), entries(&bench.whole(&as_stored).await));
        let part = bench.library.volumes.stream(&plan, 5..10, somebody()).await;
        assert!(part.is_err(), "a part of what has no length cannot be asked for");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_revisions_of_its_plan_while_volumes_are_replaced_and_deleted() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two"]).await;
    let b = bench.add("t.b", &["three"]).await;
    let wanted = request(whole_volumes(&[a.clone(), b.clone()]), Layout::Pages, Level::Frames, true);
    let plan = bench.plan(&wanted).await;
    let whole = bench.whole(&plan).await;
    bench.library.volumes.import(volume("t.a", &["other", "text"]), Unchanged::Skip, |_| {}).await.unwrap();
    let replaced = bench.plan(&wanted).await;
    assert_ne!(replaced.etag, plan.etag, "who resumes with If-Range is told that it is another archive now");
    bench.library.volumes.delete(&b).await.unwrap();
    assert!(bench.part(&plan, 10..plan.len_bytes.unwrap()).await == whole[10..]);
    assert_ne!(bench.plan(&wanted).await.etag, replaced.etag);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_etag_changes_with_whatever_changes_the_bytes_and_with_nothing_else() {
    let bench = bench().await;
    let a = bench.add("t.a", &["one", "two"]).await;
    let b = bench.add("t.b", &["three"]).await;
    let both = whole_volumes(&[a.clone(), b.clone()]);
    let etag = async |wanted, layout, level, mets| {
        bench.plan(&request(wanted, layout, level, mets)).await.etag.clone().unwrap()
    };
    let one = etag(both.clone(), Layout::Pages, Level::Frames, false).await;
    assert_eq!(one, etag(both.clone(), Layout::Pages, Level::Frames, false).await);
    let others = [
        etag(whole_volumes(&[b.clone(), a.clone()]), Layout::Pages, Level::Frames, false).await,
        etag(both.clone(), Layout::Volumes, Level::Frames, false).await,
        etag(both.clone(), Layout::Pages, Level::Stored, false).await,
        etag(both.clone(), Layout::Pages, Level::Frames, true).await,
        etag(vec![pages(&a, &[1]), both[1].clone()], Layout::Pages, Level::Frames, false).await,
        etag(vec![pages(&a, &[2]), both[1].clone()], Layout::Pages, Level::Frames, false).await,
        etag(vec![pages(&a, &[2, 1]), both[1].clone()], Layout::Pages, Level::Frames, false).await,
        etag(vec![pages(&a, &[1, 9]), both[1].clone()], Layout::Pages, Level::Frames, false).await,
    ];
    let different: std::collections::BTreeSet<_> = others.iter().chain([&one]).collect();
    assert_eq!(different.len(), others.len() + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_already_sent_is_not_read_again() {
    let bench = bench().await;
    let ids = bench.add_samples(110).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Volumes, Level::Frames, false)).await;
    let whole = bench.whole(&plan).await;
    let third = names_at(&whole, &format!("{}.txt", ids[2].cleaned()));
    for id in &ids[..2] {
        bench.harm_pack(id, 0, Harm::Lost, false).await;
    }
    let resumed = bench.part(&plan, third..plan.len_bytes.unwrap()).await;
    assert!(resumed == whole[third as usize..]);
}

/// Where the local header of an entry begins.
fn names_at(archive: &[u8], name: &str) -> u64 {
    let mut zip = zip::ZipArchive::new(std::io::Cursor::new(archive)).unwrap();
    zip.by_name(name).unwrap().header_start()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_visibly_when_its_plan_has_run_out() {
    // Nothing is made ahead, so that most of the archive is still to be made when the plan expires.
    let options = heads::LibraryOptions { read_ahead_bytes: 0, ..heads::LibraryOptions::default() };
    let bench = bench_with(options).await;
    let ids = bench.add_samples(300).await;
    let plan = bench.plan(&request(whole_volumes(&ids), Layout::Pages, Level::Frames, false)).await;
    let mut stream = bench.library.volumes.stream(&plan, pack::WHOLE, somebody()).await.unwrap();
    assert!(stream.next().await.unwrap().is_ok());
    bench.clock.advance(bench.library.options().plan_life + std::time::Duration::from_secs(1));
    let (rest, error) = super::bench::read(stream).await;
    assert!((rest.len() as u64) < plan.len_bytes.unwrap());
    assert!(matches!(error, Some(heads::ObjectsError::Expired(_))), "{error:?}");
}

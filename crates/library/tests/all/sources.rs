//! A source that cannot be imported is refused with its reason and leaves nothing visible.
use std::io::Cursor;
use std::sync::Arc;

use crate::support::{faulty, fixture, id, import, listed, texts, volume};
use hathi::{PagesOf, VolumeParts};
use heads::ObjectsError;
use parking_lot::Mutex;
use volumes::{ImportProgress, Imported, Unchanged, check};

type Parts = VolumeParts<Cursor<Vec<u8>>>;

fn with_mets(change: impl Fn(String) -> String) -> Parts {
    let mut parts = volume("t.a", &["one", "two"]);
    parts.mets = change(String::from_utf8(parts.mets).unwrap()).into_bytes();
    parts
}

fn bad_sources() -> Vec<(&'static str, Parts)> {
    let mut cut = volume("t.a", &["one", "two"]);
    cut.zip.get_mut().truncate(60);
    let mut other_id = volume("t.a", &["one", "two"]);
    other_id.id = Some(id("t.b"));
    let md5_of_two = "b8a9f715dbb64fd5c56e7783c6820a61";
    vec![
        ("zip", cut),
        ("id-mismatch", other_id),
        ("checksum", with_mets(|mets| mets.replace(md5_of_two, &"0".repeat(32)))),
        ("missing-page", with_mets(|mets| mets.replace("00000002.txt", "00000003.txt"))),
        ("mets", with_mets(|mets| mets[..mets.len() / 2].to_owned())),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_source_is_refused_with_its_kind_and_leaves_what_was_there() {
    for earlier in [false, true] {
        for (kind, parts) in bad_sources() {
            let faulty = faulty().await;
            if earlier {
                import(&faulty.library, volume("t.a", &["before"])).await.unwrap();
            }
            let error = import(&faulty.library, parts).await.unwrap_err();
            assert!(matches!(&error, ObjectsError::Source(source) if source.kind() == kind), "{kind}: {error}");
            let expected: Vec<String> = if earlier { vec!["t.a".to_owned()] } else { Vec::new() };
            assert_eq!(listed(&faulty.library, 10).await, expected);
            match texts(&faulty.library, &id("t.a")).await {
                Ok(texts) => assert!(earlier && texts == ["before"]),
                Err(error) => assert!(!earlier && matches!(error, ObjectsError::Absent(_)), "{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_check_tells_what_an_import_would_without_a_store() {
    let checked = check(volume("t.a", &["one", "two"]), PagesOf::Mets).await.unwrap();
    assert_eq!((checked.id, checked.pages, checked.bytes), (id("t.a"), 2, 6));
    for (kind, parts) in bad_sources() {
        let error = check(parts, PagesOf::Mets).await.unwrap_err();
        assert!(matches!(&error, ObjectsError::Source(source) if source.kind() == kind), "{kind}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_rises_to_all_pages_and_bytes() {
    let fixture = fixture().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let progress = {
        let seen = seen.clone();
        move |progress| seen.lock().push(progress)
    };
    let imported =
        fixture.library.volumes.import(volume("t.a", &["one", "", "three"]), Unchanged::Skip, progress).await;
    assert!(matches!(imported.unwrap(), Imported::New { .. }));
    let step = |pages, bytes| ImportProgress { pages, pages_total: 3, bytes };
    assert_eq!(*seen.lock(), [step(1, 3), step(2, 3), step(3, 8)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_record_says_is_cut_where_a_head_has_no_room_and_kept_whole_beside() {
    let fixture = fixture().await;
    let mut parts = volume("t.a", &["one"]);
    let title = "ü".repeat(200_000);
    let record = format!(r#"{{"volumeIdentifier":"t.a","title":"{title}"}}"#);
    parts.record = Some(record.clone().into_bytes());
    import(&fixture.library, parts).await.unwrap();
    let volume = fixture.library.volumes.volume(&id("t.a")).await.unwrap();
    assert_eq!(volume.body.title.as_deref(), Some(&*"ü".repeat(1_000)));
    let kept = fixture.library.volumes.record(&id("t.a")).await.unwrap().unwrap();
    assert_eq!(kept.text().unwrap(), record.as_bytes());
}

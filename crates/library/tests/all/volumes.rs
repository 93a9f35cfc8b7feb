//! The life of one volume: imported, read, listed, replaced, deleted, imported again.
use crate::support::{fixture, id, import, listed, samples, texts, volume};
use hathi::{Seq, VolumeReader};
use heads::ObjectsError;
use md5::{Digest, Md5};
use sha2::Sha256;
use volumes::{Imported, Unchanged};

#[tokio::test(flavor = "multi_thread")]
async fn every_sample_volume_reads_back_byte_for_byte() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let mut ids = Vec::new();
    for files in samples() {
        let imported = library.volumes.import(files.open().unwrap(), Unchanged::Skip, |_| {}).await.unwrap();
        let Imported::New { id, pages, .. } = imported else { panic!("{imported:?}") };
        let mut source = VolumeReader::new(files.open().unwrap()).unwrap();
        assert_eq!(pages, source.page_count() as u64);
        let infos = library.volumes.page_list(&id, 0..u32::MAX).await.unwrap();
        assert_eq!(infos.len(), source.page_count());
        for (index, info) in infos.iter().enumerate() {
            let expected = source.read_page(index).unwrap();
            let page = library.volumes.page(&id, expected.seq).await.unwrap();
            assert_eq!(page.text().unwrap(), expected.text);
            assert_eq!((page.index as usize, page.entry.seq), (index, expected.seq.get()));
            assert_eq!((info.seq, &info.label, &info.features), (expected.seq, &expected.label, &expected.features));
            assert_eq!(info.file_name, source.mets().pages[index].file_name);
            assert_eq!(info.sha256, <[u8; 32]>::from(Sha256::digest(&expected.text)));
            assert_eq!(info.md5, <[u8; 16]>::from(Md5::digest(&expected.text)));
            assert_eq!(page.fixity.gzip_sha256, <[u8; 32]>::from(Sha256::digest(page.gzip())));
        }
        assert_eq!(library.volumes.mets(&id).await.unwrap().text().unwrap(), source.mets_bytes());
        let record = library.volumes.record(&id).await.unwrap().unwrap();
        assert_eq!(record.text().unwrap(), source.record_bytes().unwrap());
        let volume = library.volumes.volume(&id).await.unwrap();
        assert_eq!(volume.body.rights, source.record().unwrap().rights);
        assert_eq!(volume.body.title, source.record().unwrap().title);
        ids.push(id.to_string());
    }
    ids.sort();
    assert_eq!(ids.len(), 16);
    assert_eq!(listed(library, 1_000).await, ids);
    assert_eq!(listed(library, 1).await, ids, "in pages of one");
    let statistics = library.statistics().await.unwrap();
    assert_eq!((statistics.volumes, statistics.pages), (16, 3_744));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_lives_is_replaced_deleted_and_comes_again() {
    let fixture = fixture().await;
    let library = &fixture.library;
    let a = id("t.a");
    assert!(matches!(library.volumes.volume(&a).await, Err(ObjectsError::Absent(_))));
    assert!(matches!(library.volumes.delete(&a).await, Err(ObjectsError::Absent(_))));

    assert!(matches!(
        import(library, volume("t.a", &["one", "", "three"])).await.unwrap(),
        Imported::New { pages: 3, bytes: 8, .. }
    ));
    let first = library.volumes.volume(&a).await.unwrap().revision;
    let same = import(library, volume("t.a", &["one", "", "three"])).await.unwrap();
    assert!(matches!(same, Imported::Unchanged { revision, .. } if revision == first), "{same:?}");
    let forced = library.volumes.import(volume("t.a", &["one", "", "three"]), Unchanged::Force, |_| {}).await.unwrap();
    assert!(matches!(forced, Imported::Replaced { revision, .. } if revision > first), "{forced:?}");

    let replaced = import(library, volume("t.a", &["uno", "due"])).await.unwrap();
    assert!(matches!(replaced, Imported::Replaced { pages: 2, .. }), "{replaced:?}");
    assert_eq!(texts(library, &a).await.unwrap(), ["uno", "due"]);
    assert_eq!(listed(library, 10).await, ["t.a"]);

    library.volumes.delete(&a).await.unwrap();
    assert!(matches!(library.volumes.page(&a, Seq::new(1).unwrap()).await, Err(ObjectsError::Gone(_))));
    assert!(matches!(library.volumes.delete(&a).await, Err(ObjectsError::Gone(_))));
    assert!(listed(library, 10).await.is_empty());

    assert!(matches!(import(library, volume("t.a", &["again"])).await.unwrap(), Imported::New { .. }));
    assert_eq!(texts(library, &a).await.unwrap(), ["again"]);
    assert_eq!(listed(library, 10).await, ["t.a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_volume_does_not_have_is_absent_by_name() {
    let fixture = fixture().await;
    import(&fixture.library, volume("t.a", &["one"])).await.unwrap();
    for seq in [2, 3, u32::MAX] {
        let error = fixture.library.volumes.page(&id("t.a"), Seq::new(seq).unwrap()).await.unwrap_err();
        assert!(matches!(&error, ObjectsError::Absent(name) if *name == format!("t.a[{seq}]")), "{error}");
    }
}

//! The sixteen real volumes in `samples/` are found, read and verified.
use crate::common::samples;
use hathi::{VolumeId, VolumeReader, discover, locate, pairtree_path};

/// Volume id, pages, bytes of text, empty pages, pages whose file is not named by their sequence
/// (counted from the files).
const CORPUS: [(&str, usize, usize, usize, usize); 16] = [
    ("gri.ark:/13960/t4dn51r67", 328, 564_327, 7, 274),
    ("gri.ark:/13960/t8x92pw05", 228, 206_594, 22, 0),
    ("loc.ark:/13960/t08w40m19", 222, 190_913, 24, 0),
    ("loc.ark:/13960/t6g16fx8r", 104, 56_898, 10, 0),
    ("nc01.ark:/13960/t2j68kf84", 360, 377_650, 13, 0),
    ("ncs1.ark:/13960/t06w9qs3g", 268, 509_274, 18, 0),
    ("nnc2.ark:/13960/t8qc0pv8n", 158, 232_051, 11, 0),
    ("psia.ark:/13960/t0ks80527", 24, 57_370, 4, 0),
    ("uc2.ark:/13960/fk3hx15z7z", 396, 750_626, 43, 390),
    ("uc2.ark:/13960/t1td9nf36", 102, 54_542, 7, 0),
    ("uc2.ark:/13960/t3513z38f", 400, 440_152, 12, 392),
    ("uc2.ark:/13960/t3mw28k58", 188, 219_840, 6, 0),
    ("uc2.ark:/13960/t3st7f20z", 168, 180_498, 10, 0),
    ("uc2.ark:/13960/t8ff3zh99", 92, 128_719, 6, 0),
    ("uiuo.ark:/13960/t13n4rm83", 294, 637_334, 23, 0),
    ("yale.39002015008130", 412, 721_188, 52, 412),
];

fn open(id: &str) -> VolumeReader<std::fs::File> {
    let files = locate(&samples(), &VolumeId::parse(id).unwrap()).unwrap();
    VolumeReader::new(files.open().unwrap()).unwrap()
}

#[test]
fn every_volume_of_the_corpus_is_found_and_every_page_matches_its_mets() {
    let mut found = Vec::new();
    for files in discover(&samples()) {
        let mut volume = VolumeReader::new(files.unwrap().open().unwrap()).unwrap();
        let (mut bytes, mut empty, mut odd_names) = (0, 0, 0);
        for index in 0..volume.page_count() {
            let page = volume.read_page(index).unwrap();
            bytes += page.text.len();
            empty += usize::from(page.text.is_empty());
            odd_names += usize::from(volume.mets().pages[index].file_name != page.seq.file_name());
        }
        assert_eq!(volume.record().unwrap().rights.as_deref(), Some("pd"));
        found.push((volume.id().to_string(), volume.page_count(), bytes, empty, odd_names));
    }
    found.sort();
    let expected: Vec<_> =
        CORPUS.iter().map(|(id, pages, bytes, empty, odd)| (id.to_string(), *pages, *bytes, *empty, *odd)).collect();
    assert_eq!(found, expected);
}

#[test]
fn every_volume_is_in_the_folder_of_its_id() {
    for (id, ..) in CORPUS {
        let id = VolumeId::parse(id).unwrap();
        let files = locate(&samples(), &id).unwrap();
        assert_eq!(files.id.as_ref(), Some(&id));
        assert_eq!(files.zip.parent().unwrap(), samples().join(pairtree_path(&id)));
        assert!(files.record.is_some());
    }
}

#[test]
fn a_page_is_found_by_its_order_even_if_its_file_has_another_number() {
    let mut yale = open("yale.39002015008130");
    let first = yale.mets().pages[0].clone();
    assert_eq!((first.seq.get(), first.file_name.as_str()), (1, "39002015008130_000000.txt"));
    assert_eq!(first.features, ["FRONT_COVER"]);
    assert_eq!(yale.read_page(0).unwrap().text.len(), 41);

    // File numbers have gaps in this one: from some page on, the file's number is above the page's.
    let mut rump = open("uc2.ark:/13960/t3513z38f");
    let index = rump.mets().pages.iter().position(|page| page.file_name != page.seq.file_name()).unwrap();
    let page = rump.mets().pages[index].clone();
    assert_eq!(page.seq.get() as usize, index + 1);
    assert!(page.file_name > page.seq.file_name(), "{page:?}");
    assert_eq!(rump.read_page(index).unwrap().text.len() as u64, page.size);
}

#[test]
fn a_reader_can_be_sent_to_another_thread() {
    let mut yale = open("yale.39002015008130");
    let page = std::thread::spawn(move || yale.read_page(0)).join().unwrap().unwrap();
    assert_eq!(page.features, ["FRONT_COVER"]);
}

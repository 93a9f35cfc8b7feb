//! Synthetic volumes read like real ones, are the same each time, and resemble the samples in size.
use std::collections::HashSet;
use std::io::Cursor;

use crate::common::{Reader, samples};
use hathi::{Sampler, SynthOptions, SynthVolume, VolumeParts, VolumeReader, discover, locate};

fn sampler() -> Sampler {
    let psia = discover(&samples().join("psia")).chain(discover(&samples().join("gri")));
    Sampler::from_volumes(psia.map(|files| VolumeReader::new(files.unwrap().open().unwrap()).unwrap())).unwrap()
}

fn reader(made: &SynthVolume) -> Reader {
    let (zip, mets) = (Cursor::new(made.zip.clone()), made.mets.clone());
    VolumeReader::new(VolumeParts { id: Some(made.id.clone()), zip, mets, record: Some(made.record.clone()) }).unwrap()
}

fn texts(made: &SynthVolume) -> Vec<Vec<u8>> {
    let mut volume = reader(made);
    (0..volume.page_count()).map(|index| volume.read_page(index).unwrap().text).collect()
}

#[test]
fn a_synthetic_volume_has_real_pages_and_a_real_number_of_them() {
    let mut real = HashSet::new();
    let mut counts = HashSet::new();
    for files in discover(&samples().join("psia")).chain(discover(&samples().join("gri"))) {
        let mut volume = VolumeReader::new(files.unwrap().open().unwrap()).unwrap();
        counts.insert(volume.page_count());
        real.extend((0..volume.page_count()).map(|index| volume.read_page(index).unwrap().text));
    }
    let options = SynthOptions { seed: 7, volumes: 5, ..SynthOptions::default() };
    let made: Vec<_> = sampler().volumes(&options).collect();
    assert_eq!(made.iter().map(|volume| volume.id.as_str()).collect::<Vec<_>>()[4], "synth.ark:/99999/s7v4");
    assert_eq!(made.len(), 5);
    for volume in &made {
        let texts = texts(volume);
        assert!(counts.contains(&texts.len()));
        assert!(texts.iter().all(|text| real.contains(text)));
        assert_eq!(reader(volume).record().unwrap().rights.as_deref(), Some("pd"));
    }
}

#[test]
fn a_volume_depends_on_samples_options_and_its_number_only() {
    let options = SynthOptions { pages_per_volume: Some(9), ..SynthOptions::default() };
    let third = sampler().volume(&options, 3);
    let again = sampler();
    again.volume(&options, 0);
    assert_eq!(again.volume(&options, 3), third);
    assert_ne!(texts(&again.volume(&options, 2)), texts(&third));
    assert_ne!(texts(&again.volume(&SynthOptions { seed: 1, ..options }, 3)), texts(&third));
}

#[test]
fn pages_are_scaled_between_characters() {
    let sampler = sampler();
    let len = |page_scale| {
        let options = SynthOptions { pages_per_volume: Some(300), page_scale, ..SynthOptions::default() };
        let texts = texts(&sampler.volume(&options, 0));
        assert_eq!(texts.len(), 300);
        assert!(texts.iter().all(|text| std::str::from_utf8(text).is_ok()), "scale {page_scale}");
        texts.iter().map(Vec::len).sum::<usize>() as f64
    };
    // Different pages are drawn after the first joined one, so sums agree only roughly.
    assert!((0.3..0.7).contains(&(len(0.5) / len(1.0))), "{} {}", len(0.5), len(1.0));
    assert!((2.0..4.5).contains(&(len(3.0) / len(1.0))), "{} {}", len(3.0), len(1.0));
    assert_eq!(len(0.0), 0.0);
}

#[test]
fn odd_options_still_make_a_volume() {
    let sampler = sampler();
    for page_scale in [f64::NAN, -1.0, f64::INFINITY] {
        let options = SynthOptions { pages_per_volume: Some(0), page_scale, ..SynthOptions::default() };
        assert_eq!(texts(&sampler.volume(&options, u64::MAX)).len(), 1);
    }
    assert_eq!(Sampler::from_volumes(Vec::<Reader>::new()).unwrap_err().kind(), "no-samples");
}

#[test]
fn a_written_pairtree_is_found_again() {
    let root = tempfile::tempdir().unwrap();
    let options = SynthOptions { volumes: 3, pages_per_volume: Some(2), ..SynthOptions::default() };
    let made: Vec<_> = sampler().volumes(&options).collect();
    for volume in &made {
        volume.write_pairtree(root.path()).unwrap();
        let files = locate(root.path(), &volume.id).unwrap();
        assert_eq!(VolumeReader::new(files.open().unwrap()).unwrap().mets_bytes(), volume.mets);
    }
    let found: HashSet<_> = discover(root.path()).map(|files| files.unwrap().id.unwrap()).collect();
    assert_eq!(found, made.into_iter().map(|volume| volume.id).collect());
}

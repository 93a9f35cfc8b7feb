//! The volumes of a measurement, drawn from the sample volumes: the same for the same options.

use std::io::Cursor;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hathi::{Sampler, SynthOptions, SynthVolume, VolumeId, VolumeParts, VolumeReader, discover};
use pack::memory::{MemorySource, MemoryVolume};
use pack::{Frame, Framer};

/// The folder of the sample volumes.
const SAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/pairtree");

/// A volume in the form in which it is imported, and its pages in stored form.
pub struct CorpusVolume {
    /// ZIP, METS and record.
    pub source: SynthVolume,
    /// Sequences and frames of its pages, in METS order.
    pub pages: Vec<(u32, Frame)>,
}

/// Makes `volumes` volumes, with frames of DEFLATE level `frame_level`. `pages_per_volume` as in
/// [`SynthOptions`].
pub fn make(volumes: u64, pages_per_volume: Option<u32>, seed: u64, frame_level: u8) -> Result<Vec<CorpusVolume>> {
    let sampler = sampler()?;
    let options = SynthOptions { seed, volumes, pages_per_volume, page_scale: 1.0 };
    sampler.volumes(&options).map(|source| Ok(CorpusVolume { pages: frames(&source, frame_level)?, source })).collect()
}

fn sampler() -> Result<Sampler> {
    let found =
        discover(Path::new(SAMPLES)).collect::<Result<Vec<_>, _>>().context("looking for the sample volumes")?;
    ensure!(!found.is_empty(), "there are no sample volumes in {SAMPLES}");
    let mut readers = Vec::new();
    for files in found {
        readers.push(VolumeReader::new(files.open()?)?);
    }
    Ok(Sampler::from_volumes(readers)?)
}

/// The frames that an import makes. Each volume has its own framer, as in an import, because
/// earlier texts of a framer can change a frame by some bytes.
fn frames(source: &SynthVolume, frame_level: u8) -> Result<Vec<(u32, Frame)>> {
    let mut framer = Framer::new(frame_level);
    let mut reader = VolumeReader::new(parts(source))?;
    (0..reader.page_count())
        .map(|index| {
            let page = reader.read_page(index)?;
            Ok((page.seq.get(), framer.frame(&page.text)?))
        })
        .collect()
}

/// A volume, ready to be imported.
pub fn parts(source: &SynthVolume) -> VolumeParts<Cursor<Vec<u8>>> {
    VolumeParts {
        id: Some(source.id.clone()),
        zip: Cursor::new(source.zip.clone()),
        mets: source.mets.clone(),
        record: Some(source.record.clone()),
    }
}

impl CorpusVolume {
    /// Its id.
    pub fn id(&self) -> &VolumeId {
        &self.source.id
    }

    /// Bytes of its pages' texts, and of their frames.
    pub fn sizes(&self) -> Sizes {
        self.pages.iter().map(|(_, frame)| Sizes::of(frame)).fold(Sizes::default(), Sizes::plus)
    }
}

/// Bytes of text, and of its frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Sizes {
    /// Bytes of text.
    pub text_bytes: u64,
    /// Bytes of the frames of that text.
    pub frame_bytes: u64,
}

impl Sizes {
    /// The sizes of one frame.
    pub fn of(frame: &Frame) -> Self {
        Self { text_bytes: frame.size.into(), frame_bytes: frame.bytes.len() as u64 }
    }

    /// The sum of both.
    pub fn plus(self, other: Self) -> Self {
        Self { text_bytes: self.text_bytes + other.text_bytes, frame_bytes: self.frame_bytes + other.frame_bytes }
    }

    /// The sizes times a factor.
    pub fn times(self, factor: u64) -> Self {
        Self { text_bytes: self.text_bytes * factor, frame_bytes: self.frame_bytes * factor }
    }
}

/// All volumes as a source of `pack`. With `pages_of`, each has the pages of that volume instead of
/// its own.
pub fn in_memory(volumes: &[CorpusVolume], pages_of: Option<&CorpusVolume>) -> MemorySource {
    let volume = |volume: &CorpusVolume| MemoryVolume {
        name: volume.id().cleaned().to_string().into(),
        pages: pages_of.unwrap_or(volume).pages.clone(),
        selected: None,
        mets: None,
    };
    MemorySource::new(volumes.iter().map(volume).collect())
}

/// The volume whose bytes of frames are nearest to the mean.
pub fn most_usual(volumes: &[CorpusVolume]) -> Option<&CorpusVolume> {
    let all = volumes.iter().map(CorpusVolume::sizes).fold(Sizes::default(), Sizes::plus);
    let mean = all.frame_bytes / (volumes.len() as u64).max(1);
    volumes.iter().min_by_key(|volume| volume.sizes().frame_bytes.abs_diff(mean))
}

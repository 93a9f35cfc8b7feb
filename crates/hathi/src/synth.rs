//! Synthetic volumes: any number of volumes for load tests, made by drawing from the pages of real
//! ones.
//!
//! Sizes and compressibility stay realistic, because whole real pages are drawn and a volume has as
//! many pages as a real one. Each volume is complete: ZIP, METS and record in HathiTrust's form,
//! which [`crate::VolumeReader`] accepts.

use std::io::{self, Cursor, Read, Seek, Write};
use std::path::Path;

use md5::{Digest, Md5};
use quick_xml::Writer;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

use crate::archive::MAX_PAGE_BYTES;
use crate::mets::MAX_PAGES;
use crate::{Seq, VolumeError, VolumeId, VolumeReader, pairtree_path};

/// The DEFLATE level of made ZIPs: that of the usual tools.
const DEFLATE_LEVEL: i64 = 6;
/// Writing into memory fails only if memory itself fails.
const IN_MEMORY: &str = "writing into memory does not fail";

/// Which volumes to make.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthOptions {
    /// The same seed makes the same volumes.
    pub seed: u64,
    /// Number of volumes that [`Sampler::volumes`] makes.
    pub volumes: u64,
    /// Pages per volume, from 1 to 100,000 (other values count as the nearest). `None`: as many as
    /// a drawn real volume.
    pub pages_per_volume: Option<u32>,
    /// Factor for a page's size in bytes, 1.0 for the real one. Pages are cut, or joined with
    /// others, between characters; none gets larger than 16 MiB.
    pub page_scale: f64,
}

impl Default for SynthOptions {
    /// One volume with real numbers and sizes of pages.
    fn default() -> Self {
        Self { seed: 0, volumes: 1, pages_per_volume: None, page_scale: 1.0 }
    }
}

/// Real pages, ready to be drawn from.
#[derive(Clone, Debug)]
pub struct Sampler {
    pages: Vec<SamplePage>,
    /// Places in `pages` of those that have text.
    with_text: Vec<usize>,
    volumes: Vec<SampleVolume>,
}

#[derive(Clone, Debug)]
struct SamplePage {
    text: Vec<u8>,
    features: Vec<String>,
}

#[derive(Clone, Debug)]
struct SampleVolume {
    page_count: u32,
    pub_date: Option<String>,
    language: Option<String>,
}

/// A synthetic volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SynthVolume {
    /// `synth.ark:/99999/s<seed>v<index>`.
    pub id: VolumeId,
    /// The ZIP with the pages' texts.
    pub zip: Vec<u8>,
    /// The METS.
    pub mets: Vec<u8>,
    /// The metadata record.
    pub record: Vec<u8>,
}

/// A page of a volume that is being made.
struct NewPage<'a> {
    seq: Seq,
    text: Vec<u8>,
    features: &'a [String],
}

impl Sampler {
    /// Reads all pages of the sample volumes, with the reader's checks, into memory.
    pub fn from_volumes<R: Read + Seek>(
        samples: impl IntoIterator<Item = VolumeReader<R>>,
    ) -> Result<Self, VolumeError> {
        let mut sampler = Self { pages: Vec::new(), with_text: Vec::new(), volumes: Vec::new() };
        for mut sample in samples {
            for index in 0..sample.page_count() {
                let page = sample.read_page(index)?;
                if !page.text.is_empty() {
                    sampler.with_text.push(sampler.pages.len());
                }
                sampler.pages.push(SamplePage { text: page.text, features: page.features });
            }
            sampler.volumes.push(SampleVolume {
                // A METS names at most 100,000 pages.
                page_count: sample.page_count() as u32,
                pub_date: sample.record().and_then(|record| record.pub_date.clone()),
                language: sample.record().and_then(|record| record.language.clone()),
            });
        }
        if sampler.pages.is_empty() { Err(VolumeError::NoSamples) } else { Ok(sampler) }
    }

    /// Makes volume number `index`. It depends only on the samples, the options and `index`, so
    /// volumes can be made in any order and in parallel.
    pub fn volume(&self, options: &SynthOptions, index: u64) -> SynthVolume {
        let mut rng = ChaCha8Rng::seed_from_u64(options.seed);
        rng.set_stream(index);
        let shape = &self.volumes[rng.random_range(0..self.volumes.len())];
        let page_count = options.pages_per_volume.unwrap_or(shape.page_count).clamp(1, MAX_PAGES as u32);
        let pages: Vec<_> = (1..=page_count)
            .filter_map(Seq::new)
            .map(|seq| {
                let first = &self.pages[rng.random_range(0..self.pages.len())];
                NewPage { seq, text: self.scaled(first, options.page_scale, &mut rng), features: &first.features }
            })
            .collect();

        let id = VolumeId::parse(&format!("synth.ark:/99999/s{}v{index}", options.seed)).expect("this is a volume id");
        SynthVolume {
            zip: zip_of(&id, &pages).expect(IN_MEMORY),
            mets: mets_of(&id, &pages).expect(IN_MEMORY),
            record: record_of(&id, index, shape),
            id,
        }
    }

    /// Makes the volumes 0 to `options.volumes` (exclusive), one by one as they are taken.
    pub fn volumes(&self, options: &SynthOptions) -> impl Iterator<Item = SynthVolume> {
        (0..options.volumes).map(move |index| self.volume(options, index))
    }

    /// The text of `first` cut to, or filled up with other pages' text to, its size times `scale`.
    /// An empty page stays empty.
    fn scaled(&self, first: &SamplePage, scale: f64, rng: &mut impl Rng) -> Vec<u8> {
        if first.text.is_empty() {
            return Vec::new();
        }
        // The conversion turns invalid sizes (negative, not a number) into 0.
        let len = ((first.text.len() as f64 * scale).round() as usize).min(MAX_PAGE_BYTES as usize);
        let mut text = first.text.clone();
        while text.len() < len {
            let next = self.with_text[rng.random_range(0..self.with_text.len())];
            text.extend_from_slice(&self.pages[next].text);
        }
        text.truncate(character_boundary_at_or_before(&text, len));
        text
    }
}

/// The last place in `text`, at most `at`, where no UTF-8 character is cut in two.
fn character_boundary_at_or_before(text: &[u8], at: usize) -> usize {
    let is_continuation = |place: &usize| text.get(*place).is_some_and(|byte| byte & 0b1100_0000 == 0b1000_0000);
    (0..=at).rev().find(|place| !is_continuation(place)).unwrap_or(0)
}

fn zip_of(id: &VolumeId, pages: &[NewPage<'_>]) -> zip::result::ZipResult<Vec<u8>> {
    let folder = id.cleaned_local();
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time, so that the volumes depend on the seed only.
    let stored = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(DateTime::default())
        .unix_permissions(0o644);
    let deflated = stored.compression_method(CompressionMethod::Deflated).compression_level(Some(DEFLATE_LEVEL));
    for page in pages {
        let options = if page.text.is_empty() { stored } else { deflated };
        zip.start_file(format!("{folder}/{}", page.seq.file_name()), options)?;
        zip.write_all(&page.text)?;
    }
    Ok(zip.finish()?.into_inner())
}

/// METS in the form of HathiTrust's (profile 2.0), with the OCR files and the physical structure
/// only.
fn mets_of(id: &VolumeId, pages: &[NewPage<'_>]) -> io::Result<Vec<u8>> {
    let mut xml = Writer::new_with_indent(Vec::new(), b' ', 2);
    xml.create_element("METS:mets")
        .with_attribute(("xmlns:METS", "http://www.loc.gov/METS/"))
        .with_attribute(("xmlns:xlink", "http://www.w3.org/1999/xlink"))
        .with_attribute(("OBJID", id.as_str()))
        .with_attribute(("PROFILE", "http://www.hathitrust.org/documents/hathitrust-mets-profile2.0.xml"))
        .write_inner_content(|xml| {
            xml.create_element("METS:fileSec").write_inner_content(|xml| file_group(xml, pages))?;
            let map =
                xml.create_element("METS:structMap").with_attribute(("ID", "SM1")).with_attribute(("TYPE", "physical"));
            map.write_inner_content(|xml| structure(xml, pages))?;
            Ok(())
        })?;
    Ok(xml.into_inner())
}

fn file_group(xml: &mut Writer<Vec<u8>>, pages: &[NewPage<'_>]) -> io::Result<()> {
    let group = xml.create_element("METS:fileGrp").with_attribute(("ID", "FG1")).with_attribute(("USE", "ocr"));
    group.write_inner_content(|xml| {
        for page in pages {
            xml.create_element("METS:file")
                .with_attribute(("SIZE", page.text.len().to_string().as_str()))
                .with_attribute(("ID", file_id(page).as_str()))
                .with_attribute(("MIMETYPE", "text/plain"))
                .with_attribute(("CHECKSUM", hex::encode(Md5::digest(&page.text)).as_str()))
                .with_attribute(("SEQ", format!("{:08}", page.seq.get()).as_str()))
                .with_attribute(("CHECKSUMTYPE", "MD5"))
                .write_inner_content(|xml| {
                    xml.create_element("METS:FLocat")
                        .with_attribute(("LOCTYPE", "OTHER"))
                        .with_attribute(("OTHERLOCTYPE", "SYSTEM"))
                        .with_attribute(("xlink:href", page.seq.file_name().as_str()))
                        .write_empty()?;
                    Ok(())
                })?;
        }
        Ok(())
    })?;
    Ok(())
}

fn structure(xml: &mut Writer<Vec<u8>>, pages: &[NewPage<'_>]) -> io::Result<()> {
    xml.create_element("METS:div").with_attribute(("TYPE", "volume")).write_inner_content(|xml| {
        for page in pages {
            xml.create_element("METS:div")
                .with_attribute(("ORDER", page.seq.to_string().as_str()))
                .with_attribute(("LABEL", page.features.join(", ").as_str()))
                .with_attribute(("TYPE", "page"))
                .with_attribute(("ORDERLABEL", page.seq.to_string().as_str()))
                .write_inner_content(|xml| {
                    xml.create_element("METS:fptr").with_attribute(("FILEID", file_id(page).as_str())).write_empty()?;
                    Ok(())
                })?;
        }
        Ok(())
    })?;
    Ok(())
}

fn file_id(page: &NewPage<'_>) -> String {
    format!("OCR{:08}", page.seq.get())
}

fn record_of(id: &VolumeId, index: u64, shape: &SampleVolume) -> Vec<u8> {
    let record = serde_json::json!({
        "schemaVersion": "1.3",
        "volumeIdentifier": id,
        "accessProfile": "open",
        "rightsAttributes": "pd",
        "title": format!("Synthetic volume {index}"),
        "pubDate": shape.pub_date,
        "language": shape.language,
    });
    record.to_string().into_bytes()
}

impl SynthVolume {
    /// Writes ZIP, METS and record into the volume's folder of the pairtree at `root`. Missing
    /// folders are made.
    pub fn write_pairtree(&self, root: &Path) -> io::Result<()> {
        let folder = root.join(pairtree_path(&self.id));
        std::fs::create_dir_all(&folder)?;
        let stem = self.id.cleaned_local();
        for (suffix, bytes) in [("zip", &self.zip), ("mets.xml", &self.mets), ("json", &self.record)] {
            std::fs::write(folder.join(format!("{stem}.{suffix}")), bytes)?;
        }
        Ok(())
    }
}

//! Volume ZIPs: for any bytes, reading ends with the page that METS describes or a clear error.
#![no_main]

use std::io::Cursor;

use hathi::{VolumeParts, VolumeReader};
use libfuzzer_sys::fuzz_target;

const METS: &[u8] = br#"<mets xmlns="http://www.loc.gov/METS/" OBJID="a.b"><fileSec><fileGrp USE="ocr">
<file ID="F1" SIZE="5" CHECKSUM="5d41402abc4b2a76b9719d911017c592" CHECKSUMTYPE="MD5"><FLocat href="00000001.txt"/></file>
</fileGrp></fileSec><structMap><div><div ORDER="1"><fptr FILEID="F1"/></div></div></structMap></mets>"#;

/// A ZIP with this page.
const ACCEPTED: &[u8] = include_bytes!("../seeds/volume_zip/accepted");

/// Returns how many pages are read.
fn check(zip: &[u8]) -> usize {
    let parts = VolumeParts { id: None, zip: Cursor::new(zip), mets: METS.to_vec(), record: None };
    let Ok(mut reader) = VolumeReader::new(parts) else { return 0 };
    let mut pages = 0;
    for index in 0..reader.page_count() {
        if let Ok(page) = reader.read_page(index) {
            assert_eq!(page.text, b"hello", "by its MD5");
            pages += 1;
        }
    }
    pages
}

fuzz_target!(init: assert_eq!(check(ACCEPTED), 1), |zip: &[u8]| { check(zip); });

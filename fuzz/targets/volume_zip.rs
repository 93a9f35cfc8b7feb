//! Volume ZIPs: for any bytes, reading ends with pages or a clear error.
#![no_main]

use std::io::Cursor;

use hathi::{VolumeParts, VolumeReader};
use libfuzzer_sys::fuzz_target;

const METS: &[u8] = br#"<mets OBJID="a.b"><fileSec><fileGrp USE="ocr">
<file ID="F1" SIZE="5" CHECKSUM="5d41402abc4b2a76b9719d911017c592" CHECKSUMTYPE="MD5"><FLocat href="00000001.txt"/></file>
</fileGrp></fileSec><structMap><div><div ORDER="1"><fptr FILEID="F1"/></div></div></structMap></mets>"#;

fuzz_target!(|zip: &[u8]| {
    let parts = VolumeParts { id: None, zip: Cursor::new(zip), mets: METS.to_vec(), record: None };
    if let Ok(mut reader) = VolumeReader::new(parts) {
        for index in 0..reader.page_count() {
            let _ = reader.read_page(index);
        }
    }
});

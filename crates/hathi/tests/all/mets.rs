//! METS is read by namespace, and errors name what is wrong in it.
use crate::common::{mets, said_of};
use hathi::mets::{MAX_METS_BYTES, MAX_PAGES};
use hathi::{Mets, MetsError};

const PAGES: [(&str, &[u8]); 2] = [("00000001.txt", b"one"), ("00000009.txt", b"two")];

/// A METS of two pages as text, to be changed.
fn text() -> String {
    String::from_utf8(mets(Some("lib.x"), &said_of(&PAGES))).unwrap()
}

fn with(from: &str, to: &str) -> Result<Mets, MetsError> {
    let text = text();
    assert!(text.contains(from), "{from} is not in the METS to be changed");
    Mets::parse(text.replacen(from, to, 1).as_bytes())
}

#[track_caller]
fn refused(from: &str, to: &str, words: &str) {
    let error = with(from, to).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn pages_are_sorted_by_order() {
    let swapped = with(r#"ORDER="1""#, r#"ORDER="30""#).unwrap();
    let pages: Vec<_> = swapped.pages.iter().map(|page| (page.seq.get(), page.file_name.as_str(), page.size)).collect();
    assert_eq!(pages, [(2, "00000009.txt", 3), (30, "00000001.txt", 3)]);
    assert_eq!(swapped.id.as_deref(), Some("lib.x"));
    assert_eq!(hex::encode(swapped.pages[0].md5), "b8a9f715dbb64fd5c56e7783c6820a61");
}

#[test]
fn labels_and_features_are_read_and_empty_ones_dropped() {
    let page = |attributes: &str| with(r#"ORDER="1""#, &format!(r#"ORDER="1" {attributes}"#)).unwrap().pages[0].clone();
    let labelled = page(r#"ORDERLABEL="xii &amp; &#x78;" LABEL="RIGHT, COVER""#);
    assert_eq!(labelled.label.as_deref(), Some("xii & x"));
    assert_eq!(labelled.features, ["RIGHT", "COVER"]);
    assert_eq!(page(r#"ORDERLABEL="" LABEL=", TITLE,""#).features, ["TITLE"]);
    assert_eq!(page(r#"ORDERLABEL="" LABEL=", TITLE,""#).label, None);
    assert_eq!(page("").features, Vec::<String>::new());
}

#[test]
fn any_prefix_is_accepted_and_another_namespace_is_not() {
    let expected = Mets::parse(text().as_bytes()).unwrap();
    let default = text().replace("xmlns:m=", "xmlns=").replace("<m:", "<").replace("</m:", "</");
    assert_eq!(Mets::parse(default.as_bytes()).unwrap(), expected);
    refused("http://www.loc.gov/METS/", "http://www.loc.gov/ALTO/", "root must be `mets`");
    refused("http://www.loc.gov/METS/", "", "root must be `mets`");
    // A `file` of another vocabulary inside the group does not belong to METS.
    let foreign = with("<m:file ", r#"<f:file xmlns:f="urn:other" ID="G"/><m:file "#).unwrap();
    assert_eq!(foreign, expected);
}

#[test]
fn only_the_ocr_group_and_the_physical_map_count() {
    refused(r#"USE="ocr""#, r#"USE="coordOCR""#, "names no page");
    refused(r#"TYPE="physical""#, r#"TYPE="logical""#, "no div of the physical structMap points to it");
    let other_files = r#"<m:fileGrp USE="image"><m:file ID="I1"/></m:fileGrp><m:fileGrp USE="ocr">"#;
    assert_eq!(with(r#"<m:fileGrp USE="ocr">"#, other_files).unwrap().pages.len(), 2);
    assert_eq!(with("<m:fptr ", r#"<m:fptr FILEID="I1"/><m:fptr "#).unwrap().pages.len(), 2);
    let nested = text().replace(r#"<m:fileGrp USE="ocr">"#, r#"<m:fileGrp USE="ocr"><m:fileGrp>"#);
    let nested = nested.replace("</m:fileGrp>", "</m:fileGrp></m:fileGrp>");
    assert_eq!(Mets::parse(nested.as_bytes()).unwrap().pages.len(), 2);
}

#[test]
fn a_mets_inside_the_mets_is_metadata_and_has_no_pages() {
    let inner = String::from_utf8(mets(None, &said_of(&[("inner.txt", b"")]))).unwrap();
    for (section, before) in [("dmdSec", "<m:fileSec>"), ("behaviorSec", "<m:structMap ")] {
        let outer = with(before, &format!("<m:{section}><m:mdWrap>{inner}</m:mdWrap></m:{section}>{before}")).unwrap();
        assert_eq!(outer, Mets::parse(text().as_bytes()).unwrap());
    }
}

#[test]
fn missing_and_invalid_attributes_are_named() {
    refused(r#" ORDER="2""#, "", "lacks the attribute ORDER of the div of 00000009.txt");
    refused(r#"ORDER="2""#, r#"ORDER="0""#, r#"ORDER="0" in the div of 00000009.txt"#);
    refused(r#"ORDER="2""#, r#"ORDER="2b""#, "is not a number above 0");
    refused(r#"ORDER="2""#, r#"ORDER="1""#, "the page with ORDER 1 twice");
    refused(r#"ID="F2""#, r#"ID="F1""#, "the file F1 twice");
    refused(r#"FILEID="F2""#, r#"FILEID="F1""#, "the file F1 as a page twice");
    refused(r#"FILEID="F2""#, r#"FILEID="F3""#, "OCR file F2, which is not a page");
    refused(
        r#"CHECKSUMTYPE="MD5""#,
        r#"CHECKSUMTYPE="SHA-1""#,
        r#"CHECKSUMTYPE="SHA-1" in file F1, which must be MD5"#,
    );
    refused(r#"CHECKSUMTYPE="MD5""#, "", "CHECKSUMTYPE of file F1");
    refused(r#"CHECKSUM=""#, r#"CHECKSUM="0"#, "32 hexadecimal digits");
    refused(r#"SIZE="3""#, r#"SIZE="-3""#, "is not a number of bytes");
    refused(r#"<m:FLocat x:href="00000001.txt"/>"#, "", "xlink:href of FLocat of file F1");
}

#[test]
fn malformed_xml_is_refused() {
    for (from, to) in [
        ("</m:div>", "</m:dib>"),
        ("<m:fptr ", r#"<m:fptr FILEID="F9" "#),
        (r#"ORDER="2""#, "ORDER=2"),
        ("lib.x", "&other;"),
    ] {
        assert!(matches!(with(from, to), Err(MetsError::Xml { .. })), "{to}");
    }
    let whole = text();
    let Err(MetsError::Xml { at, .. }) = with("lib.x", "&other;") else { unreachable!("refused above") };
    assert_eq!(at as usize, whole.replacen("lib.x", "&other;", 1).find("<m:fileSec>").unwrap());
    for len in 0..whole.len() {
        assert!(Mets::parse(&whole.as_bytes()[..len]).is_err(), "cut to {len} bytes");
    }
    let not_utf8 = crate::common::patched(whole.as_bytes(), b"lib.x", b"lib.\xff");
    assert!(matches!(Mets::parse(&not_utf8), Err(MetsError::Xml { .. })));
    assert!(matches!(Mets::parse(format!("{whole}{whole}").as_bytes()), Err(MetsError::NotMets)));
}

#[test]
fn entities_are_not_expanded() {
    let declared = r#"<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><m:mets "#;
    assert!(matches!(with("<m:mets ", declared), Err(MetsError::Doctype)));
}

#[test]
fn documents_beyond_the_limits_are_refused() {
    let deep = "<m:div>".repeat(200) + &"</m:div>".repeat(200);
    assert!(matches!(with("<m:div>", &format!("{deep}<m:div>")), Err(MetsError::TooIntricate)));
    let wide: String = (0..100).map(|n| format!(" A{n}=\"\"")).collect();
    assert!(matches!(with(r#"<m:div ORDER="1""#, &format!(r#"<m:div ORDER="1"{wide}"#)), Err(MetsError::TooIntricate)));
    let long = "9".repeat(5_000);
    assert!(matches!(with(r#"SIZE="3""#, &format!(r#"SIZE="{long}""#)), Err(MetsError::TooIntricate)));
    let many_features = "A,".repeat(33);
    assert!(matches!(with("<m:div>", &format!(r#"<m:div LABEL="{many_features}">"#)), Err(MetsError::TooIntricate)));
    assert!(matches!(Mets::parse(&vec![b' '; MAX_METS_BYTES + 1]), Err(MetsError::TooLarge(_))));

    let mut said = said_of(&[("x.txt", b"")]);
    let one = said.remove(0);
    let many = |count: usize| {
        let say =
            |order| crate::common::Said { order, file_name: format!("{order}.txt"), size: 0, md5: one.md5.clone() };
        Mets::parse(&mets(None, &(1..=count as u32).map(say).collect::<Vec<_>>()))
    };
    assert_eq!(many(MAX_PAGES).unwrap().pages.len(), MAX_PAGES);
    assert!(matches!(many(MAX_PAGES + 1), Err(MetsError::TooManyPages)));
}

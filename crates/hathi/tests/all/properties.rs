//! Properties of every id, list, page and byte.
use std::collections::HashSet;

use crate::common::{mets, read, said_of, zip};
use hathi::{Mets, Record, Seq, VolumeId, pairtree_path, parse_page_ids, parse_volume_ids, parse_volume_lines};
use proptest::prelude::*;

/// Ids of every allowed form, with many of the characters that cleaning changes.
fn volume_id() -> impl Strategy<Value = VolumeId> {
    r#"[a-z0-9]{1,5}\.([a-z0-9]|[ "*+,<=>?\\^/:.]|\PC){1,30}"#
        .prop_filter_map("no id", |text| VolumeId::parse(&text).ok())
}

proptest! {
    #[test]
    fn reading_the_cleaned_form_undoes_cleaning(id in volume_id()) {
        let cleaned = id.cleaned();
        prop_assert_eq!(VolumeId::from_cleaned(cleaned.as_str()).unwrap(), id.clone());
        prop_assert_eq!(VolumeId::from_path_segment(cleaned.as_str()).unwrap(), id);
    }

    #[test]
    fn an_id_is_found_under_its_segment_of_a_path(id in volume_id()) {
        let segment = id.path_segment();
        prop_assert!(segment.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte)));
        let decoded = percent_encoding::percent_decode_str(&segment).decode_utf8().unwrap();
        prop_assert_eq!(VolumeId::from_path_segment(&decoded).unwrap(), id);
    }

    #[test]
    fn a_cleaned_local_id_is_one_harmless_file_name(id in volume_id()) {
        let cleaned = id.cleaned_local();
        prop_assert!(cleaned.bytes().all(|byte| byte.is_ascii_graphic()));
        prop_assert!(!cleaned.contains(['/', '\\', '.', ':', '"', '*', '<', '>', '?', '|']));
    }

    #[test]
    fn the_short_folders_of_a_path_spell_the_cleaned_id(id in volume_id()) {
        let path = pairtree_path(&id);
        let parts: Vec<_> = path.iter().map(|part| part.to_str().unwrap()).collect();
        let cleaned = id.cleaned_local();
        prop_assert_eq!(parts[0], id.library());
        prop_assert_eq!(parts[2..parts.len() - 1].concat(), cleaned.clone());
        prop_assert_eq!(parts[parts.len() - 1], cleaned);
        prop_assert!(parts[2..parts.len() - 2].iter().all(|part| part.len() == 2));
    }

    #[test]
    fn parsing_a_displayed_id_returns_the_same_id(id in volume_id()) {
        prop_assert_eq!(VolumeId::parse(&id.to_string()).unwrap(), id);
    }

    #[test]
    fn a_list_gives_each_volume_once_in_order(picks in prop::collection::vec(0..20_usize, 1..60)) {
        let ids: Vec<String> = picks.iter().map(|pick| format!("lib.{pick}")).collect();
        let mut seen = HashSet::new();
        let expected: Vec<&String> = ids.iter().filter(|id| seen.insert(*id)).collect();
        let parsed = parse_volume_ids(&ids.join(" | "), || true).unwrap();
        prop_assert_eq!(parsed.iter().map(VolumeId::as_str).collect::<Vec<_>>(), expected);
        prop_assert_eq!(parse_volume_lines(&ids.join("\n"), || true).unwrap(), parsed);
    }

    #[test]
    fn a_page_list_gives_each_page_once_in_order(picks in prop::collection::vec((0..4_u32, 1..9_u32), 1..60)) {
        let list: Vec<String> = picks.iter().map(|(volume, page)| format!("lib.{volume}[{page}]")).collect();
        let parsed = parse_page_ids(&list.join("|"), || true).unwrap();
        let mut seen = HashSet::new();
        let firsts: Vec<_> = picks.iter().filter(|pick| seen.insert(**pick)).collect();
        prop_assert_eq!(parsed.iter().map(|list| list.pages.len()).sum::<usize>(), firsts.len());
        for list in parsed {
            let of_volume = firsts.iter().filter(|(volume, _)| format!("lib.{volume}") == list.volume.as_str());
            prop_assert_eq!(list.pages.iter().map(|page| page.get()).collect::<Vec<_>>(), of_volume.map(|pick| pick.1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn zipped_texts_are_read_back(texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 1..12)) {
        let names: Vec<String> = (1..=texts.len() as u32).map(|n| Seq::new(n).unwrap().file_name()).collect();
        let pages: Vec<(&str, &[u8])> = names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_slice())).collect();
        let mut volume = read(zip(&pages), mets(Some("lib.x"), &said_of(&pages))).unwrap();
        for (index, text) in texts.iter().enumerate() {
            prop_assert_eq!(&volume.read_page(index).unwrap().text, text);
        }
    }

    #[test]
    fn no_input_makes_a_parser_panic(text in r#"\PC{0,60}"#, bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = (VolumeId::parse(&text), VolumeId::from_cleaned(&text), VolumeId::from_path_segment(&text));
        let all = || true;
        let _ = (parse_volume_ids(&text, all), parse_page_ids(&text, all), parse_volume_lines(&text, all));
        let _ = parse_page_ids(&format!("lib.x[{text}]"), all);
        let _ = (Mets::parse(&bytes), Record::parse(&bytes), read(bytes, mets(None, &said_of(&[("1.txt", b"")]))));
    }

    #[test]
    fn changed_bytes_in_a_mets_never_make_it_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut xml = mets(Some("lib.x"), &said_of(&[("1.txt", b"one"), ("2.txt", b"two")]));
        for (at, byte) in changes {
            let at = at.index(xml.len());
            xml[at] = byte;
        }
        if let Ok(mets) = Mets::parse(&xml) {
            prop_assert!(mets.pages.is_sorted_by(|one, next| one.seq < next.seq));
        }
    }
}

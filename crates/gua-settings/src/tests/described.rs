//! Printed settings are correct and can be parsed again.

use super::*;

#[test]
fn the_default_file_is_accepted_as_it_is_and_with_every_line_active() {
    let text = describe::default_file();
    check(&text, &[]);
    let active: String = text
        .lines()
        .map(|line| {
            line.strip_prefix('#')
                .filter(|rest| !rest.starts_with(' '))
                .unwrap_or(line)
                .to_owned()
                + "\n"
        })
        .collect();
    check(&active, &[]);
    let home = Home(Some(HOME.into()));
    let mut settings = Settings::defaults(&home);
    file::apply(&mut settings, active.as_bytes(), Path::new("f"), &home);
    for (set, default) in settings
        .shown()
        .iter()
        .zip(Settings::defaults(&home).shown())
    {
        assert_eq!(set.toml, default.toml, "{}", set.entry.key);
        assert!(
            matches!(set.source, Source::File { .. }),
            "{} is not in the default file",
            set.entry.key
        );
    }
}

#[test]
fn the_shown_settings_are_a_valid_file_with_the_same_values() {
    let layers = Layers::new(
        Some("[driver]\nlibrary = '/a \"b\"/x.so'\n"),
        None,
        &[("GUA_DRIVER_DEADLINE", "0.5m")],
    );
    let settings = layers.load().settings;
    let text = describe::settings_toml(&settings);
    check(&text, &[]);
    let home = Home(Some(HOME.into()));
    let mut again = Settings::defaults(&home);
    file::apply(&mut again, text.as_bytes(), Path::new("f"), &home);
    for (one, other) in settings.shown().iter().zip(again.shown()) {
        assert_eq!(one.toml, other.toml);
    }
}

#[test]
fn every_setting_has_its_own_variable_and_a_sentence() {
    let mut seen = std::collections::HashSet::new();
    for entry in ENTRIES {
        assert!(seen.insert(entry.env), "{} is used twice", entry.env);
        assert!(entry.env.starts_with("GUA_"));
        assert!(
            entry.doc.trim().ends_with('.') && entry.section_doc.ends_with('.'),
            "{}",
            entry.key
        );
    }
}

#[test]
fn the_configuration_page_lists_every_setting() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = fs::read_to_string(page).unwrap();
    for entry in ENTRIES {
        let row = format!(
            "| `{}.{}` | `{}` | `{}` | {} |",
            entry.section,
            entry.key,
            entry.env,
            (entry.default_toml)(),
            entry.doc.trim(),
        );
        assert!(
            page.lines().any(|line| line == row),
            "docs/configuration.md needs this row:\n{row}"
        );
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let home = Home(Some(HOME.into()));
        file::apply(&mut Settings::defaults(&home), &bytes, Path::new("f"), &home);
    }

    #[test]
    fn text_that_looks_like_a_configuration_never_panics(
        text in r#"(\[{0,2}(driver|states|"\PC")\]{0,2}|(library|deadline|held_mb|active_util|db|\PC) ?= ?(['"]\PC{0,9}['"]?|-?[0-9x.e_]{0,20}|\{|\[|true)|\n){0,9}"#
    ) {
        let home = Home(Some(HOME.into()));
        let problems = file::apply(&mut Settings::defaults(&home), text.as_bytes(), Path::new("f"), &home);
        for problem in problems {
            prop_assert_eq!(problem.to_string().lines().count(), 1);
        }
    }
}

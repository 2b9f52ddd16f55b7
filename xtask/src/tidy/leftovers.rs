//! Nothing unfinished, and nothing switched off.

use super::Finding;
use super::code::has_word;
use super::tree::Tree;

/// What may stand nowhere in a Rust file, with the way to fix it. In two parts, so that this
/// file and searches of the tree do not find the words here.
const WORDS: [([&str; 2], &str); 9] = [
    (["todo", "!("], "write it, or leave the feature out"),
    (["unimplemented", "!("], "write it, or leave the feature out"),
    (["FIX", "ME"], "fix it now, or open an issue"),
    (["XX", "X"], "fix it now, or open an issue"),
    (["#[ign", "ore"], "call `gannet_measure::testing::skipped` and return, or delete the test"),
    (["SKIP", "PED"], "call `gannet_measure::testing::skipped`"),
    (["\"skip", "ped: "], "call `gannet_measure::testing::skipped`"),
    (["allow(dead", "_code"], "delete the dead code"),
    (["allow(un", "used"], "delete what is unused"),
];

/// No Rust file holds a mark of unfinished work or silences a lint about unused code.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        for (line, text) in file.lines() {
            for (parts, advice) in WORDS {
                let word = parts.concat();
                if holds(text, &word) {
                    let message = format!("`{word}`: {advice}");
                    findings.push(Finding::new(&file.path, line, "leftover", message));
                }
            }
        }
    }
    findings
}

fn holds(text: &str, word: &str) -> bool {
    let is_name = word.chars().all(char::is_alphanumeric);
    if is_name { has_word(text, word) } else { text.contains(word) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn each_mark_is_found_on_its_line() {
        for (parts, _) in WORDS {
            let text = format!("fn f() {{}}\n    // {} \n", parts.concat());
            assert_eq!(places(check, &[("a.rs", &text)]), ["a.rs:2"], "{parts:?}");
        }
    }

    #[test]
    fn a_name_that_contains_a_mark_is_none() {
        let text = format!("const A{}A: u8 = 0;\n", ["XX", "X"].concat());
        assert_eq!(places(check, &[("a.rs", &text)]), [""; 0]);
    }
}

//! What the README says of the program: its output as it was, and every verb that there is.

use std::process::Command;

const README: &str = include_str!("../../../../README.md");
const DEMO: &str = include_str!("../../../../results/demo.md");

#[test]
fn the_readme_quotes_a_demonstration_that_was_run() {
    let quote = README.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut lines = quote.lines().filter(|line| line.trim() != "...").peekable();
    assert!(lines.peek().is_some());
    for line in lines {
        assert!(DEMO.lines().any(|told| told == line), "{line} is not in results/demo.md");
    }
}

#[test]
fn the_readme_tells_of_every_verb() {
    let help = Command::new(env!("CARGO_BIN_EXE_gannet")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    // Lines that go on are further to the right.
    let verbs = listed.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let verbs: Vec<&str> = verbs.filter(|verb| !verb.is_empty() && *verb != "help").collect();
    assert!(verbs.len() > 5, "{verbs:?}");
    for verb in verbs {
        let told = [' ', '`'].iter().any(|end| README.contains(&format!("| `gannet {verb}{end}")));
        assert!(told, "the table of verbs in README.md has no `gannet {verb}`");
    }
}

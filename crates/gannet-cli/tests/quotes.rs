//! What documents quote of the program's output stands in `results`.

const README: &str = include_str!("../../../README.md");
const DEMO: &str = include_str!("../../../results/demo.md");

#[test]
fn the_readme_quotes_a_demonstration_that_was_run() {
    let quote = README.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    let mut lines = quote.lines().filter(|line| line.trim() != "...").peekable();
    assert!(lines.peek().is_some());
    for line in lines {
        assert!(DEMO.lines().any(|told| told == line), "{line} is not in results/demo.md");
    }
}

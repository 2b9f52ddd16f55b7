//! What a configuration says of level-0 matching, tested and as rules.

use gannet_control::config::{Config, Document, Problem};
use gannet_wire::na62::mtp::CALIBRATION;
use gannet_wire::na62::{FINE_CLOCK, FRAME_FINE_BITS, Source};

use super::config::{Level0Config, MaskConfig, RichStreams, RichTables, StreamPackets};
use crate::matching::{Condition, MASKS_MAX, Mask, Matched, Rules, SOURCES_MAX};

/// Refuses rules that contradict themselves, or primitives that nothing brings or matches.
pub(super) fn check(config: &Config<RichTables>, document: &Document<'_>) -> Result<(), Problem> {
    let refused = |key: &str, cause: String, suggestion: &str| {
        Err(document.problem(key, cause, suggestion.into()))
    };
    let brings = |source| {
        let primitives = |streams: &RichStreams| streams.packets == StreamPackets::Primitives;
        let streams = config.sources.iter().map(|it| &it.streams);
        source == config.pipeline.answer.source
            || streams.filter(|it| primitives(it)).any(|it| it.source == source)
    };
    let Some(level0) = &config.pipeline.level0 else {
        let is_other = |packets| packets == StreamPackets::Primitives;
        let other = config.sources.iter().position(|source| is_other(source.streams.packets));
        return match other {
            Some(index) => refused(
                &format!("source[{index}].streams.packets"),
                "there is nothing to match its primitives with".into(),
                "add [pipeline.level0], or remove this source",
            ),
            None => Ok(()),
        };
    };
    let numbers: Vec<u8> = level0.numbers().collect();
    if numbers.len() > SOURCES_MAX {
        let cause = format!("there are {} sources with the reference", numbers.len());
        return refused("pipeline.level0.sources", cause, "name at most 15");
    }
    for (place, number) in numbers.iter().enumerate() {
        let key = match place {
            0 => "pipeline.level0.reference".to_owned(),
            place => format!("pipeline.level0.sources[{}].source", place - 1),
        };
        if numbers[..place].contains(number) {
            return refused(&key, format!("{number} is there twice"), "name each source once");
        }
        if !brings(*number) {
            let suggestion = "add a [[source]] with `streams = { packets = \"primitives\", source = ... }`, \
                              or name answer.source for the RICH itself";
            return refused(&key, format!("nothing brings primitives of {number}"), suggestion);
        }
    }
    if level0.masks.len() > MASKS_MAX {
        let cause = format!("there are {}", level0.masks.len());
        return refused("pipeline.level0.masks", cause, "write at most 16");
    }
    for (index, mask) in level0.masks.iter().enumerate() {
        let key = format!("pipeline.level0.masks[{index}]");
        if mask.downscaling == 0 {
            let suggestion = "write 1 to take all, or remove the mask";
            return refused(&format!("{key}.downscaling"), "0 takes none".into(), suggestion);
        }
        for (index, condition) in mask.conditions.iter().enumerate() {
            let key = format!("{key}.conditions[{index}]");
            if !numbers.contains(&condition.source) {
                let cause = format!("{} is not matched", condition.source);
                let suggestion = "name the reference or one of level0.sources";
                return refused(&format!("{key}.source"), cause, suggestion);
            }
            let twice = mask.conditions[..index].iter().any(|it| it.source == condition.source);
            if twice {
                let cause = format!("{} has a condition already", condition.source);
                return refused(&format!("{key}.source"), cause, "write one with all bits");
            }
            if condition.care & CALIBRATION != 0 {
                let suggestion = "write at most 0x7fff";
                return refused(
                    &format!("{key}.care"),
                    "an identifier has 15 bits".into(),
                    suggestion,
                );
            }
            if condition.value & !condition.care != 0 {
                let cause = "it has bits that do not matter".into();
                return refused(&format!("{key}.value"), cause, "set them in care, too");
            }
        }
    }
    let window_max = config.record.window_ticks_max.saturating_sub(1 << FRAME_FINE_BITS);
    let longest_ns = FINE_CLOCK.ns(window_max.saturating_sub(1));
    let sum_ns = level0.before.ns().saturating_add(level0.after.ns());
    if sum_ns == 0 || sum_ns > longest_ns {
        let cause = format!("before and after are {sum_ns} ns together");
        let suggestion =
            format!("write 1 ns to {longest_ns} ns, or a longer record.window_ticks_max");
        return refused("pipeline.level0.after", cause, &suggestion);
    }
    if !(1..=1 << 16).contains(&level0.records_in_flight_max) {
        let cause = format!("{} is not allowed", level0.records_in_flight_max);
        return refused("pipeline.level0.records_in_flight_max", cause, "write 1 to 65536");
    }
    Ok(())
}

impl Level0Config {
    /// Numbers of the sources, that of the reference first.
    fn numbers(&self) -> impl Iterator<Item = u8> {
        [self.reference].into_iter().chain(self.sources.iter().map(|matched| matched.source))
    }

    /// The rules of matching.
    pub(super) fn rules(&self) -> Rules {
        let others = self.sources.iter().map(|it| (it.source, it.cut_fine));
        let sources = [(self.reference, 0)].into_iter().chain(others);
        let sources = sources
            .map(|(source, cut_fine)| Matched { source: Source::from_number(source), cut_fine });
        let condition = |mask: &MaskConfig, source| {
            let of_source = mask.conditions.iter().find(|condition| condition.source == source);
            of_source
                .map_or_else(Condition::default, |it| Condition { care: it.care, value: it.value })
        };
        let masks = self.masks.iter().map(|mask| Mask {
            conditions: self.numbers().map(|source| condition(mask, source)).collect(),
            downscaling: mask.downscaling,
        });
        Rules { slot: self.slot, sources: sources.collect(), masks: masks.collect() }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gannet_control::config;

    use crate::NA62_RICH;

    const VALID: &str = r#"
        [[source]]
        streams = { packets = "boards" }
        udp = { listen = ["127.0.0.1:7000"] }
        [[source]]
        streams = { packets = "primitives", links = [0], source = 24 }
        udp = { listen = ["127.0.0.1:7001"] }
        [pipeline]
        detector = "na62-rich"
        [pipeline.level0]
        reference = 24
        sources = [{ source = 28, cut_fine = 100 }]
        after = "1 us"
        [[pipeline.level0.masks]]
        conditions = [{ source = 28, care = 0x4000, value = 0x4000 }]
        downscaling = 2
    "#;

    fn cause(from: &str, to: &str) -> Option<String> {
        assert!(VALID.contains(from), "{from}");
        let text = VALID.replacen(from, to, 1);
        let parsed = config::parse("level0.toml", &text, Path::new("."), &[&NA62_RICH]);
        parsed.err().map(|problem| problem.cause)
    }

    #[test]
    fn rules_that_contradict_themselves_or_the_sources_are_refused() {
        assert_eq!(cause("", ""), None);
        let refused = [
            ("reference = 24", "reference = 20", "nothing brings primitives of 20"),
            ("source = 28, cut", "source = 24, cut", "24 is there twice"),
            ("source = 28, care", "source = 20, care", "20 is not matched"),
            ("care = 0x4000", "care = 0xc000", "an identifier has 15 bits"),
            ("value = 0x4000", "value = 0x4001", "it has bits that do not matter"),
            ("downscaling = 2", "downscaling = 0", "0 takes none"),
            ("\"1 us\"", "\"1 s\"", "before and after are 1000000100 ns together"),
            ("\"boards\"", "\"primitives\"", "the first source has primitives of others"),
        ];
        for (from, to, expected) in refused {
            let cause = cause(from, to).unwrap();
            assert!(cause.ends_with(expected), "{to}: {cause}");
        }
        let without = VALID.split_once("[pipeline.level0]").unwrap().0;
        let parsed = config::parse("level0.toml", without, Path::new("."), &[&NA62_RICH]);
        let cause = parsed.unwrap_err().cause;
        assert!(cause.ends_with("there is nothing to match its primitives with"), "{cause}");
    }
}

//! Numbers, times, rates and loads as arguments.

use std::ops::RangeInclusive;

use gannet_lofamo::Timing;
use gannet_measure::quantity::Span;

/// Units of a rate in bit/s.
const UNITS: [(&str, f64); 9] = [
    ("Tbit/s", 1e12),
    ("Gbit/s", 1e9),
    ("Mbit/s", 1e6),
    ("kbit/s", 1e3),
    ("bit/s", 1.0),
    ("TB/s", 8e12),
    ("GB/s", 8e9),
    ("MB/s", 8e6),
    ("kB/s", 8e3),
];

/// Reads a number within a range.
///
/// # Errors
/// When the text is no such number, with what to choose.
pub fn number(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let value = text.trim().parse().map_err(|_| format!("`{text}` is not a number"))?;
    if range.contains(&value) {
        Ok(value)
    } else {
        Err(format!("{text} is out of range; choose {} to {}", range.start(), range.end()))
    }
}

/// Reads a watchdog period.
///
/// # Errors
/// When the text is no time, or one that no machine is watched with.
pub fn period(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    if (Timing::PERIOD_MIN_NS..=Timing::PERIOD_MAX_NS).contains(&span.ns()) {
        Ok(span)
    } else {
        let (least, most) = (Span(Timing::PERIOD_MIN_NS), Span(Timing::PERIOD_MAX_NS));
        Err(format!("{text} is out of range; choose {least} to {most}"))
    }
}

/// Reads a rate, such as `100Gbit/s`, in bit/s.
///
/// # Errors
/// When the text is no rate, with the units there are.
pub fn rate(text: &str) -> Result<f64, String> {
    let rate = UNITS.iter().find_map(|(unit, factor)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        Some(number * factor)
    });
    rate.filter(|rate| rate.is_finite() && *rate > 0.0).ok_or_else(|| {
        let units = UNITS.map(|(unit, _)| unit).join(", ");
        format!("`{text}` is no rate; write a number and one of the units {units}, as 100Gbit/s")
    })
}

/// A rate in the unit that suits it.
pub fn rate_text(bit_per_s: f64) -> String {
    let (unit, factor) =
        UNITS[..5].iter().find(|(_, factor)| bit_per_s >= *factor).unwrap_or(&UNITS[4]);
    let digits = if bit_per_s / factor < 100.0 { 1 } else { 0 };
    format!("{:.digits$} {unit}", bit_per_s / factor)
}

/// Most loads of a curve.
const LOADS_MAX: usize = 1000;

/// Flits per node and cycle, in the order asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads(pub Vec<f64>);

/// Reads loads with commas, each a number or a range such as `0.1..1.0:0.1`.
///
/// # Errors
/// What of the text is no load, and what it should be.
pub fn loads(text: &str) -> Result<Loads, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, rest)) => all.extend(range(first, rest)?),
            None => all.push(load(part)?),
        }
        if all.len() > LOADS_MAX {
            return Err(format!("more than {LOADS_MAX} loads; make the step larger"));
        }
    }
    Ok(Loads(all))
}

fn load(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let load = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.0..=1.0).contains(&load) {
        Ok(load)
    } else {
        Err(format!("{text} is out of range; choose 0 to 1 flit per node and cycle"))
    }
}

/// Loads from `first` on in steps; `rest` is the last load, a colon and the step.
fn range(first: &str, rest: &str) -> Result<Vec<f64>, String> {
    let (last, step) =
        rest.split_once(':').ok_or("a range has a step: first..last:step, as 0.1..1.0:0.1")?;
    let (first, last, step) = (load(first)?, load(last)?, load(step)?);
    if first > last || step < 1e-4 {
        return Err("a range goes up, in steps of at least 0.0001".to_owned());
    }
    // A tenth of a step is what sums of decimal fractions may miss the last load by.
    let count = ((last - first) / step + 0.1) as usize;
    let at = |index: usize| ((first + index as f64 * step) * 1e6).round() / 1e6;
    Ok((0..=count).map(at).map(|load| load.min(1.0)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_within_their_range() {
        assert_eq!(number(" 0.9", 0.0..=0.9), Ok(0.9));
        assert_eq!(number("x", 0.0..=1.0).unwrap_err(), "`x` is not a number");
        for bad in ["1.5", "-0.1", "nan"] {
            assert!(number(bad, 0.0..=1.0).unwrap_err().ends_with("choose 0 to 1"), "{bad}");
        }
    }

    #[test]
    fn rates_are_read_and_printed() {
        assert_eq!((rate("100Gbit/s"), rate("2.5 GB/s")), (Ok(1e11), Ok(2e10)));
        assert_eq!(
            (rate_text(1e11), rate_text(6.4e12)),
            ("100 Gbit/s".into(), "6.4 Tbit/s".into())
        );
        for bad in ["100", "100 Gbit", "-1 Gbit/s", "fast", "0 bit/s"] {
            assert!(rate(bad).unwrap_err().contains("100Gbit/s"), "{bad}");
        }
    }

    #[test]
    fn loads_are_read_with_commas_and_ranges() {
        let read = |text: &str| loads(text).map(|loads| loads.0);
        assert_eq!(read("0.3"), Ok(vec![0.3]));
        assert_eq!(read("0.02, 0.1..0.3:0.1,1"), Ok(vec![0.02, 0.1, 0.2, 0.3, 1.0]));
        assert_eq!(read("0.1..1.0:0.1").unwrap().len(), 10);
        assert_eq!(read("0.1..1.0:0.1").unwrap()[9], 1.0);
        assert_eq!(read("0.5..0.6:0.4"), Ok(vec![0.5]));
        for bad in ["", "much", "-0.1", "1.1", "nan", "0.1..0.9", "0.9..0.1:0.1", "0..1:0"] {
            assert!(read(bad).is_err(), "{bad}");
        }
        assert!(read("0..1:0.0001").unwrap_err().contains("more than 1000"));
    }
}

//! Loads as arguments: a number, several with commas, or a range.

/// Most loads of a curve.
const LOADS_MAX: usize = 1000;

/// Flits per node and cycle, in the order asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Loads(pub Vec<f64>);

/// Reads loads with commas, each a number or a range such as `0.1..1.0:0.1`.
///
/// # Errors
/// What of the text is no load, and what it should be.
pub fn parse(text: &str) -> Result<Loads, String> {
    let mut loads = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            Some((first, rest)) => loads.extend(range(first, rest)?),
            None => loads.push(load(part)?),
        }
        if loads.len() > LOADS_MAX {
            return Err(format!("more than {LOADS_MAX} loads; make the step larger"));
        }
    }
    Ok(Loads(loads))
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
    fn loads_are_read_with_commas_and_ranges() {
        let read = |text: &str| parse(text).map(|loads| loads.0);
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

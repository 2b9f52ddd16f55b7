//! What makes trials harder than the published ones.

use gannet_torus_study::awareness::{Hardship, Surroundings};

use super::part;

/// What faults and links may be like beside what the published figures are of.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Harder trials")]
pub struct HardshipArguments {
    /// Fraction of the faults that heal, after up to twice the longest time that awareness may
    /// take; what was dead starts anew.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = whole)]
    heal: f64,
    /// Fraction of the cut cables that are cut in one direction only.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = whole)]
    half_cut: f64,
    /// Fraction of the flaky cables that get a random number of errors at a random rate: 1 to 24 at
    /// each end, of which 11 make a link sick, instead of 16 at once.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = whole)]
    random_errors: f64,
    /// Run the master on the first host that can speak, to die with it; the next takes over with an
    /// empty picture.
    #[arg(long)]
    mortal_master: bool,
    /// Fraction of the credit words that working links lose or damage; ten in a row look like a
    /// dead link.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = part)]
    credit_loss: f64,
    /// Fraction of the credit words that are late, by 4 us in the mean; 9 us look like a dead link.
    #[arg(long, default_value = "0", value_name = "PART", value_parser = part)]
    credit_late: f64,
}

impl HardshipArguments {
    /// What makes faults harder.
    pub fn hardship(&self) -> Hardship {
        let Self { heal, half_cut, random_errors, mortal_master, .. } = *self;
        Hardship { heal, half_cut, random_errors, mortal_master }
    }

    /// Surroundings whose links are no better than asked for.
    pub fn harden(&self, surroundings: Surroundings) -> Surroundings {
        let Self { credit_loss, credit_late, .. } = *self;
        Surroundings { credit_loss, credit_late, ..surroundings }
    }

    /// The same as options of the command line, each after a space; nothing where nothing is harder.
    pub fn options(&self) -> String {
        let parts = [
            ("heal", self.heal),
            ("half-cut", self.half_cut),
            ("random-errors", self.random_errors),
            ("credit-loss", self.credit_loss),
            ("credit-late", self.credit_late),
        ];
        let asked = parts.into_iter().filter(|(_, part)| *part > 0.0);
        let mut options: String = asked.map(|(name, part)| format!(" --{name} {part}")).collect();
        if self.mortal_master {
            options += " --mortal-master";
        }
        options
    }
}

fn whole(text: &str) -> Result<f64, String> {
    super::number(text, 0.0..=1.0)
}

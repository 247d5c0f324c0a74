//! The group Jobs: what stands around a program that uses cards.

use clap::Subcommand;
use gua_claim::ClaimId;

use super::FormatArgs;

/// What can be done with claims.
#[derive(Debug, Subcommand)]
pub enum ClaimCommand {
    /// Show which cards are leased to whom until when, and who waits.
    ///
    /// A lease ends with the process that it is for, at its deadline, or when it is released. After that a card stays claimed
    /// as long as that process, or one that it started, is on it.
    #[command(
        after_help = "Examples:\n  gua claim list\n  gua claim list --json | jq '.claims[].id'\n  \
                      gua claim list --csv > claims.csv"
    )]
    List {
        #[command(flatten)]
        format: FormatArgs,
    },
    /// Give cards back before the claim ends by itself.
    ///
    /// One's own claims; root may give back anyone's.
    #[command(
        after_help = "Examples:\n  gua claim release 1c9d03fe\n  gua claim release --all-mine"
    )]
    Release {
        /// The claims, as `gua claim list` calls them.
        #[arg(value_name = "ID", value_parser = claim_id, required_unless_present = "all_mine", conflicts_with = "all_mine")]
        ids: Vec<ClaimId>,

        /// All of one's own.
        #[arg(long)]
        all_mine: bool,
    },
}

fn claim_id(text: &str) -> Result<ClaimId, String> {
    text.parse()
        .map_err(|_| "a claim is called by eight digits and letters from a to f".to_owned())
}

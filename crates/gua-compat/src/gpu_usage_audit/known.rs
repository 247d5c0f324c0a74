//! GPUs of an old history, found by skipping from one to the next in its index.

use gua_store::imported::LegacyError;
use rusqlite::OptionalExtension as _;

use super::open::OldFile;

/// Last known state of a GPU of an old history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldCard {
    pub uuid: String,
    pub index: Option<u32>,
    pub name: Option<String>,
}

/// Maximum number of GPUs. More cannot belong to one host.
const MOST: usize = 4096;

impl OldFile {
    /// All GPUs that have rows, in the order of their names.
    pub fn known_cards(&self) -> Result<Vec<OldCard>, LegacyError> {
        self.read_cards().map_err(|source| self.failed(source))
    }

    fn read_cards(&self) -> Result<Vec<OldCard>, rusqlite::Error> {
        let mut next = self.connection.prepare(
            "SELECT gpu_uuid FROM gpu_sample WHERE gpu_uuid > ?1 ORDER BY gpu_uuid LIMIT 1",
        )?;
        let has_index = self.columns().has("gpu_sample", "gpu_index");
        let has_name = self.columns().has("gpu_device", "name");
        let mut cards: Vec<OldCard> = Vec::new();
        while cards.len() < MOST {
            let last = cards.last().map_or("", |card| card.uuid.as_str());
            let Some(uuid) = next
                .query_row([last], |row| row.get::<_, String>(0))
                .optional()?
            else {
                break;
            };
            let one = |sql: &str| -> Result<_, rusqlite::Error> {
                let value = self
                    .connection
                    .query_row(sql, [&uuid], |row| row.get::<_, rusqlite::types::Value>(0));
                value.optional()
            };
            let index = match has_index {
                true => one(
                    "SELECT gpu_index FROM gpu_sample WHERE gpu_uuid = ?1 ORDER BY ts DESC LIMIT 1",
                )?,
                false => None,
            };
            let name = match has_name {
                true => one("SELECT name FROM gpu_device WHERE gpu_uuid = ?1 LIMIT 1")?,
                false => None,
            };
            cards.push(OldCard {
                index: match index {
                    Some(rusqlite::types::Value::Integer(index)) => u32::try_from(index).ok(),
                    _ => None,
                },
                name: match name {
                    Some(rusqlite::types::Value::Text(name)) => Some(name),
                    _ => None,
                },
                uuid,
            });
        }
        Ok(cards)
    }
}

//! Names of the host, its GPUs and its users.

use std::collections::{BTreeMap, HashMap};

use gua_model::report::PersonNames;
use gua_model::{GpuUuid, Uid};
use gua_query::GpuInfo;
use gua_store::History;

use crate::error::ExportError;

/// Names used in rows.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) host: Option<String>,
    cards: BTreeMap<GpuUuid, GpuInfo>,
    old_cards: BTreeMap<GpuUuid, String>,
    people: PersonNames,
    told: HashMap<Uid, String>,
}

impl Names {
    pub(crate) fn of_history(history: &History) -> Result<Self, ExportError> {
        let cards = history.cards()?;
        let cards = cards.into_iter().map(|card| (card.uuid.clone(), card));
        let old = history.old_facts()?.unwrap_or_default();
        let old_cards = old
            .gpus
            .into_iter()
            .filter_map(|(gpu, card)| Some((gpu, card.name?)));
        Ok(Self {
            host: history.host()?.or(old.host.map(|host| host.name)),
            cards: cards.collect(),
            old_cards: old_cards.collect(),
            people: PersonNames::new(history.people()?),
            told: HashMap::new(),
        })
    }

    pub(crate) fn host(&self) -> Option<&str> {
        self.host.as_deref()
    }

    /// Last known index of a GPU.
    pub(crate) fn card_index(&self, gpu: &GpuUuid) -> Option<i64> {
        self.cards.get(gpu)?.index.map(i64::from)
    }

    pub(crate) fn card_name(&self, gpu: &GpuUuid) -> Option<&str> {
        let own = self.cards.get(gpu).and_then(|card| card.name.as_deref());
        own.or_else(|| self.old_cards.get(gpu).map(String::as_str))
    }

    pub(crate) fn card_parent(&self, gpu: &GpuUuid) -> Option<&str> {
        self.cards.get(gpu)?.parent.as_ref().map(GpuUuid::as_str)
    }

    /// Looks up the name of a user; a user without a name is shown by uid, as in reports.
    pub(crate) fn learn(&mut self, uid: Option<Uid>) {
        if let Some(uid) = uid
            && !self.told.contains_key(&uid)
        {
            let name = self.people.of(Some(uid)).to_owned();
            self.told.insert(uid, name);
        }
    }

    /// Name of a user passed to `learn` before; `None` is the unknown owner.
    pub(crate) fn person(&self, uid: Option<Uid>) -> Option<&str> {
        self.told.get(&uid?).map(String::as_str)
    }

    /// Time of the first own tick of each GPU.
    pub(crate) fn own_since(&self) -> BTreeMap<GpuUuid, jiff::Timestamp> {
        let cards = self.cards.iter();
        cards
            .map(|(gpu, card)| (gpu.clone(), card.first_seen))
            .collect()
    }
}

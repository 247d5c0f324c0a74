//! The style sheet and the script of the pages. Their URLs contain a hash of their content, so browsers keep them
//! without asking again, and fetch a new one after an update.

use std::sync::LazyLock;

use axum::http::header;
use axum::response::IntoResponse as _;
use gua_render::chart::page_style;

use crate::call::{Answer, Call};
use crate::error::Problem;

const KEEP: &str = "public, max-age=31536000, immutable";

/// A file that pages refer to.
pub(crate) struct Asset {
    pub(crate) name: String,
    kind: &'static str,
    content: String,
}

pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let content = page_style() + include_str!("style.css");
    Asset::new("board", "css", "text/css; charset=utf-8", content)
});

pub(crate) static SCRIPT: LazyLock<Asset> = LazyLock::new(|| {
    let content = include_str!("board.js").to_owned();
    Asset::new("board", "js", "text/javascript; charset=utf-8", content)
});

impl Asset {
    fn new(stem: &str, ending: &str, kind: &'static str, content: String) -> Self {
        // FNV-1a: the hash tells versions of our own files apart and protects nothing.
        let hash = content
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            });
        Self {
            name: format!("{stem}-{hash:016x}.{ending}"),
            kind,
            content,
        }
    }
}

pub(crate) fn asset(call: &Call) -> Answer {
    let name = call.path("file");
    let found = [&*STYLE, &*SCRIPT]
        .into_iter()
        .find(|asset| asset.name == name);
    let asset = found.ok_or(Problem::NotFound("file"))?;
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, KEEP),
    ];
    Ok((headers, asset.content.as_str()).into_response())
}

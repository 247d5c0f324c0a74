//! Forms that change something and then return to their page. Each calls the API handler of the same name.

use axum::extract::Path;
use gua_board_store::{AccountId, ApiTokenId, EnrolmentKeyId, HostId};

use super::admin::{Answer, Board, Caller};
use super::layout::{see_other, workspace_path};
use crate::api::{
    self, ChangeSettings, Input, Rename, Replace, RoleBody, SetGroups, SetMaintenance,
};

macro_rules! forms {
    ($($name:ident($($value:ident: $type:ty),*) => $page:literal;)*) => {$(
        pub(crate) async fn $name(app: Board, caller: Caller, $($value: $type),*) -> Answer {
            let page = workspace_path(&caller) + $page;
            Ok(see_other(&page, api::$name(app, caller, $($value),*).await?))
        }
    )*};
}

forms! {
    rename_host(host: Path<(String, HostId)>, input: Input<Rename>) => "/servers";
    revoke_host(host: Path<(String, HostId)>) => "/servers";
    approve_host(host: Path<(String, HostId)>) => "/servers";
    replace_host(host: Path<(String, HostId)>, input: Input<Replace>) => "/servers";
    set_host_groups(host: Path<(String, HostId)>, input: Input<SetGroups>) => "/servers";
    set_maintenance(host: Path<(String, HostId)>, input: Input<SetMaintenance>) => "/servers";
    end_maintenance(host: Path<(String, HostId)>) => "/servers";
    revoke_enrolment_key(key: Path<(String, EnrolmentKeyId)>) => "/servers";
    set_role(account: Path<(String, AccountId)>, input: Input<RoleBody>) => "/members";
    set_member_groups(account: Path<(String, AccountId)>, input: Input<SetGroups>) => "/members";
    remove_member(account: Path<(String, AccountId)>) => "/members";
    revoke_api_token(token: Path<(String, ApiTokenId)>) => "/tokens";
    set_settings(input: Input<ChangeSettings>) => "/settings";
}

//! The registry in SQLite: accounts and tokens here, hosts and enrolment in `hosts`, identities and user names in `people`.

mod hosts;
mod people;

use jiff::Timestamp;
use rusqlite::types::ToSql;
use rusqlite::{Connection, OptionalExtension as _, Params, Row, Transaction, params};

use super::SqliteStore;
use crate::error::StoreError;
use crate::id::{AccountId, ApiTokenId, EnrolmentKeyId, HostId, WorkspaceId};
use crate::password::PasswordHash;
use crate::registry::{
    Account, Action, ApiToken, AuditEntry, Change, EnrolmentKey, Event, FIRST_WORKSPACE, Host,
    HostClaim, HostUser, Identity, Join, LinkPurpose, Maintenance, Member, Membership, NewAccount,
    NewApiToken, NewEnrolmentKey, NewLink, NewSession, Refusal, Registry, Role, UserName,
    Workspace,
};
use crate::secret::SecretHash;

impl Registry for SqliteStore {
    fn revision(&self) -> Result<u64, StoreError> {
        let found = self.one("SELECT value FROM meta WHERE key = 'revision'", [], |row| {
            Ok(row.get::<_, i64>(0)?)
        })?;
        let number = found.and_then(|number| u64::try_from(number).ok());
        number.ok_or(StoreError::Invalid("revision"))
    }

    fn workspaces(&self) -> Result<Vec<Workspace>, StoreError> {
        self.many("SELECT id, name FROM workspace ORDER BY name", [], |row| {
            Ok(workspace(row, 0)?)
        })
    }

    fn add_workspace(&self, by: &Change, name: &str) -> Result<Workspace, StoreError> {
        self.write(|transaction| {
            let id = WorkspaceId::random();
            let added = transaction.execute(
                "INSERT INTO workspace (id, name) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING",
                [id.as_str(), name],
            )?;
            conflict_unless(added == 1, "a workspace with this name exists")?;
            audit(transaction, by, Some(&id), Action::WorkspaceAdded, name)?;
            Ok(Workspace {
                id,
                name: name.to_owned(),
            })
        })
    }

    fn add_account(&self, by: &Change, account: &NewAccount) -> Result<Account, StoreError> {
        self.write(|transaction| add_account(transaction, by, account))
    }

    fn account(&self, name: &str) -> Result<Option<Account>, StoreError> {
        let sql = "SELECT id, name, password FROM account WHERE name = ?1";
        self.one(sql, [name], account)
    }

    fn set_password(
        &self,
        by: &Change,
        account: &AccountId,
        password: &PasswordHash,
    ) -> Result<(), StoreError> {
        self.write(|transaction| people::set_password(transaction, by, account, password))
    }

    fn set_role(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        account: &AccountId,
        role: Option<Role>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let name = account_name(transaction, account)?;
            let key = [workspace.as_str(), account.as_str()];
            let (action, object) = match role {
                Some(role) => {
                    put_member(transaction, workspace, account, role)?;
                    (Action::RoleSet, format!("{name}: {role}"))
                }
                None => {
                    let sql = "DELETE FROM member WHERE workspace = ?1 AND account = ?2";
                    found(transaction.execute(sql, key)?, "member")?;
                    for sql in [
                        "DELETE FROM user_name WHERE workspace = ?1 AND account = ?2",
                        "DELETE FROM name_code WHERE workspace = ?1 AND account = ?2",
                    ] {
                        transaction.execute(sql, key)?;
                    }
                    people::delete_links(transaction, account)?;
                    (Action::MemberRemoved, name)
                }
            };
            let sql = "SELECT count(*) FROM member WHERE workspace = ?1 AND role = 'owner'";
            let owners: i64 = transaction.query_row(sql, [workspace.as_str()], |row| row.get(0))?;
            conflict_unless(owners > 0, "a workspace keeps at least one owner")?;
            bump_revision(transaction)?;
            audit(transaction, by, Some(workspace), action, &object)
        })
    }

    fn members(&self, workspace: &WorkspaceId) -> Result<Vec<Member>, StoreError> {
        let sql = "SELECT account.id, account.name, member.role FROM member JOIN account ON account.id = member.account
                   WHERE member.workspace = ?1 ORDER BY account.name";
        self.many(sql, [workspace.as_str()], |row| {
            Ok(Member {
                account: AccountId(row.get(0)?),
                name: row.get(1)?,
                role: word(row, 2, "role")?,
            })
        })
    }

    fn memberships(&self, account: &AccountId) -> Result<Vec<Membership>, StoreError> {
        let sql = "SELECT workspace.id, workspace.name, member.role FROM member
                   JOIN workspace ON workspace.id = member.workspace WHERE member.account = ?1 ORDER BY workspace.name";
        self.many(sql, [account.as_str()], |row| {
            Ok(Membership {
                workspace: workspace(row, 0)?,
                role: word(row, 2, "role")?,
            })
        })
    }

    fn add_session(&self, by: &Change, session: &NewSession) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute(
                "DELETE FROM session WHERE expires <= ?1",
                [by.at.as_microsecond()],
            )?;
            transaction.execute(
                "INSERT INTO session (hash, account, expires) VALUES (?1, ?2, ?3)",
                params![
                    session.hash.0,
                    session.account.as_str(),
                    session.expires.as_microsecond()
                ],
            )?;
            let name = account_name(transaction, &session.account)?;
            audit(transaction, by, None, Action::LoggedIn, &name)
        })
    }

    fn session(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Account>, StoreError> {
        let sql = "SELECT account.id, account.name, account.password FROM session
                   JOIN account ON account.id = session.account WHERE session.hash = ?1 AND session.expires > ?2";
        self.one(sql, params![hash.0, now.as_microsecond()], account)
    }

    fn end_session(&self, hash: &SecretHash) -> Result<(), StoreError> {
        self.write(|transaction| {
            transaction.execute("DELETE FROM session WHERE hash = ?1", params![hash.0])?;
            Ok(())
        })
    }

    fn add_api_token(&self, by: &Change, token: &NewApiToken) -> Result<ApiToken, StoreError> {
        self.write(|transaction| {
            let id = ApiTokenId::random();
            transaction.execute(
                "INSERT INTO api_token (id, hash, prefix, workspace, account, scope, created, expires)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
                params![
                    id.as_str(),
                    token.hash.0,
                    token.prefix,
                    token.workspace.as_str(),
                    token.account.as_str(),
                    token.scope.as_str(),
                    by.at.as_microsecond(),
                    token.expires.map(Timestamp::as_microsecond),
                ],
            )?;
            let workspace = Some(&token.workspace);
            audit(transaction, by, workspace, Action::ApiTokenAdded, &token.prefix)?;
            Ok(ApiToken {
                id,
                workspace: token.workspace.clone(),
                account: token.account.clone(),
                account_name: account_name(transaction, &token.account)?,
                scope: token.scope,
                prefix: token.prefix.clone(),
                created: by.at,
                expires: token.expires,
            })
        })
    }

    fn api_token(
        &self,
        hash: &SecretHash,
        now: Timestamp,
    ) -> Result<Option<(ApiToken, Role)>, StoreError> {
        let sql = format!(
            "SELECT {API_TOKEN}, member.role FROM api_token JOIN account ON account.id = api_token.account
             JOIN member ON member.account = api_token.account AND member.workspace = api_token.workspace
             WHERE api_token.hash = ?1 AND coalesce(api_token.expires > ?2, TRUE)"
        );
        self.one(&sql, params![hash.0, now.as_microsecond()], |row| {
            Ok((api_token(row)?, word(row, 8, "role")?))
        })
    }

    fn api_tokens(&self, workspace: &WorkspaceId) -> Result<Vec<ApiToken>, StoreError> {
        let sql = format!(
            "SELECT {API_TOKEN} FROM api_token JOIN account ON account.id = api_token.account
             WHERE api_token.workspace = ?1 ORDER BY api_token.created, api_token.id"
        );
        self.many(&sql, [workspace.as_str()], api_token)
    }

    fn revoke_api_token(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        token: &ApiTokenId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let sql = "DELETE FROM api_token WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
            let prefix = deleted(transaction, sql, [workspace.as_str(), token.as_str()])?;
            let prefix = prefix.ok_or(StoreError::NotFound("API token"))?;
            bump_revision(transaction)?;
            audit(
                transaction,
                by,
                Some(workspace),
                Action::ApiTokenRevoked,
                &prefix,
            )
        })
    }

    fn add_link(&self, by: &Change, link: &NewLink) -> Result<(), StoreError> {
        let (workspace, role, account) = match &link.purpose {
            LinkPurpose::Join { workspace, role } => (Some(workspace), Some(role.as_str()), None),
            LinkPurpose::Reset { account } => (None, None, Some(account.as_str())),
        };
        self.write(|transaction| {
            transaction.execute(
                "DELETE FROM link WHERE expires <= ?1",
                [by.at.as_microsecond()],
            )?;
            transaction.execute(
                "INSERT INTO link (hash, workspace, role, account, expires) VALUES (?1, ?2, ?3, ?4, ?5)",
                params![
                    link.hash.0,
                    workspace.map(WorkspaceId::as_str),
                    role,
                    account,
                    link.expires.as_microsecond()
                ],
            )?;
            let object = role.unwrap_or("password reset");
            audit(transaction, by, workspace, Action::LinkAdded, object)
        })
    }

    fn link(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<LinkPurpose>, StoreError> {
        self.read(|connection| find_link(connection, hash, now))
    }

    fn accept_link(
        &self,
        by: &Change,
        hash: &SecretHash,
        name: &str,
        password: &PasswordHash,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| {
            let purpose = find_link(transaction, hash, by.at)?;
            let Some(LinkPurpose::Join { workspace, role }) = purpose else {
                return Err(StoreError::NotFound("link"));
            };
            transaction.execute("DELETE FROM link WHERE hash = ?1", params![hash.0])?;
            let account = NewAccount {
                name: name.to_owned(),
                password: Some(password.clone()),
                workspace,
                role,
            };
            add_account(transaction, by, &account)
        })
    }

    fn reset_password(
        &self,
        by: &Change,
        hash: &SecretHash,
        password: &PasswordHash,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| {
            let Some(LinkPurpose::Reset { account }) = find_link(transaction, hash, by.at)? else {
                return Err(StoreError::NotFound("link"));
            };
            transaction.execute("DELETE FROM link WHERE hash = ?1", params![hash.0])?;
            people::set_password(transaction, by, &account, password)?;
            Ok(Account {
                name: account_name(transaction, &account)?,
                id: account,
                password: Some(password.clone()),
            })
        })
    }

    fn account_by_identity(&self, identity: &Identity) -> Result<Option<Account>, StoreError> {
        self.read(|connection| people::by_identity(connection, identity))
    }

    fn join(
        &self,
        by: &Change,
        identity: &Identity,
        name: &str,
        join: &Join,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| people::join(transaction, by, (identity, name), join))
    }

    fn add_name_code(
        &self,
        code: &SecretHash,
        workspace: &WorkspaceId,
        account: &AccountId,
        expires: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            // A member has one code at a time.
            transaction.execute(
                "DELETE FROM name_code WHERE account = ?1",
                [account.as_str()],
            )?;
            transaction.execute(
                "INSERT INTO name_code (hash, workspace, account, expires) VALUES (?1, ?2, ?3, ?4)",
                params![
                    code.0,
                    workspace.as_str(),
                    account.as_str(),
                    expires.as_microsecond()
                ],
            )?;
            Ok(())
        })
    }

    fn prove_name(
        &self,
        by: &Change,
        code: &SecretHash,
        host: &Host,
        name: &str,
    ) -> Result<Account, StoreError> {
        self.write(|transaction| people::prove(transaction, by, code, (host, name)))
    }

    fn set_user_name(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        name: &HostUser,
        account: Option<&AccountId>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| match account {
            Some(account) => people::link(transaction, by, workspace, (name, account)),
            None => people::unlink(transaction, by, workspace, name),
        })
    }

    fn user_names(&self, workspace: &WorkspaceId) -> Result<Vec<UserName>, StoreError> {
        let sql = "SELECT host, name, account, since FROM user_name WHERE workspace = ?1 ORDER BY account, name, host";
        self.many(sql, [workspace.as_str()], |row| {
            let host: String = row.get(0)?;
            Ok(UserName {
                user: HostUser {
                    host: (!host.is_empty()).then_some(HostId(host)),
                    name: row.get(1)?,
                },
                account: AccountId(row.get(2)?),
                since: time(row.get(3)?)?,
            })
        })
    }

    fn has_accounts(&self) -> Result<bool, StoreError> {
        let found = self.one("SELECT 1 FROM account LIMIT 1", [], |_| Ok(()))?;
        Ok(found.is_some())
    }

    fn add_enrolment_key(
        &self,
        by: &Change,
        key: &NewEnrolmentKey,
    ) -> Result<EnrolmentKey, StoreError> {
        self.write(|transaction| hosts::add_key(transaction, by, key))
    }

    fn enrolment_keys(&self, workspace: &WorkspaceId) -> Result<Vec<EnrolmentKey>, StoreError> {
        self.many(hosts::KEYS, [workspace.as_str()], hosts::key)
    }

    fn revoke_enrolment_key(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        key: &EnrolmentKeyId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            let sql = "DELETE FROM enrolment_key WHERE workspace = ?1 AND id = ?2 RETURNING prefix";
            let prefix = deleted(transaction, sql, [workspace.as_str(), key.as_str()])?;
            let prefix = prefix.ok_or(StoreError::NotFound("enrolment key"))?;
            audit(
                transaction,
                by,
                Some(workspace),
                Action::EnrolmentKeyRevoked,
                &prefix,
            )
        })
    }

    fn claim(&self, claim: &HostClaim) -> Result<Host, StoreError> {
        self.write(|transaction| hosts::claim(transaction, claim))
    }

    fn refusal(&self, claim: &HostClaim) -> Result<Option<(WorkspaceId, Refusal)>, StoreError> {
        let found = self.one(hosts::KEY_BY_HASH, params![claim.key.0], hosts::key)?;
        Ok(found.and_then(|key| {
            let refusal = hosts::refusal(&key, claim)?;
            Some((key.workspace, refusal))
        }))
    }

    fn hosts(&self, workspace: Option<&WorkspaceId>) -> Result<Vec<Host>, StoreError> {
        let workspace = workspace.map(WorkspaceId::as_str);
        self.many(&hosts::of_workspace(), [workspace], hosts::host)
    }

    fn host_by_token(&self, hash: &SecretHash, now: Timestamp) -> Result<Option<Host>, StoreError> {
        let find = || self.one(&hosts::by_token(), params![hash.0], hosts::host);
        if let Some(host) = find()? {
            return Ok(Some(host));
        }
        // Unknown tokens must not cost a write transaction: anyone can send them.
        if self
            .one(hosts::IS_NEXT_TOKEN, params![hash.0], |_| Ok(()))?
            .is_none()
        {
            return Ok(None);
        }
        self.write(|transaction| hosts::begin_token(transaction, hash, now))?;
        find()
    }

    fn rotate_token(
        &self,
        host: &HostId,
        next: &SecretHash,
        prefix: &str,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::rotate(transaction, host, next, prefix))
    }

    fn approve_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::approve(transaction, by, workspace, host))
    }

    fn replace_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        old: &HostId,
        new: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::replace(transaction, by, workspace, (old, new)))
    }

    fn rename_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        name: &str,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::rename(transaction, by, workspace, host, name))
    }

    fn set_maintenance(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
        maintenance: Option<&Maintenance>,
    ) -> Result<(), StoreError> {
        self.write(|transaction| {
            hosts::set_maintenance(transaction, by, workspace, host, maintenance)
        })
    }

    fn revoke_host(
        &self,
        by: &Change,
        workspace: &WorkspaceId,
        host: &HostId,
    ) -> Result<(), StoreError> {
        self.write(|transaction| hosts::revoke(transaction, by, workspace, host))
    }

    fn log(&self, by: &Change, event: &Event<'_>) -> Result<(), StoreError> {
        self.write(|transaction| {
            audit(transaction, by, event.workspace, event.action, event.object)
        })
    }

    fn audit_log(
        &self,
        workspace: &WorkspaceId,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let sql = "SELECT number, at, actor, address, action, object FROM audit
                   WHERE (workspace = ?1 OR workspace IS NULL) AND number < ?2 ORDER BY number DESC LIMIT ?3";
        let range = params![workspace.as_str(), before.unwrap_or(i64::MAX), most];
        self.many(sql, range, audit_entry)
    }

    fn events(
        &self,
        workspace: &WorkspaceId,
        action: Action,
        since: Timestamp,
        most: u32,
    ) -> Result<Vec<AuditEntry>, StoreError> {
        let sql = "SELECT number, at, actor, address, action, object FROM audit
                   WHERE workspace = ?1 AND action = ?2 AND at >= ?3 ORDER BY number DESC LIMIT ?4";
        let since = since.as_microsecond();
        let range = params![workspace.as_str(), action.as_str(), since, most];
        self.many(sql, range, audit_entry)
    }
}

impl SqliteStore {
    /// Returns the first row of a query.
    fn one<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl FnOnce(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            rows.next()?.map(convert).transpose()
        })
    }

    /// Returns all rows of a query.
    fn many<T>(
        &self,
        sql: &str,
        values: impl Params,
        convert: impl Fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        self.read(|connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(values)?;
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                all.push(convert(row)?);
            }
            Ok(all)
        })
    }
}

/// Adds the workspace of a new board.
pub(super) fn add_first_workspace(connection: &Connection) -> rusqlite::Result<()> {
    let id = WorkspaceId::random();
    connection.execute(
        "INSERT INTO workspace (id, name) VALUES (?1, ?2)",
        [id.as_str(), FIRST_WORKSPACE],
    )?;
    Ok(())
}

/// Converts a stored time.
pub(super) fn time(micros: i64) -> Result<Timestamp, StoreError> {
    Timestamp::from_microsecond(micros).map_err(|_| StoreError::Invalid("time"))
}

fn optional_time(micros: Option<i64>) -> Result<Option<Timestamp>, StoreError> {
    micros.map(time).transpose()
}

fn word<T: std::str::FromStr>(
    row: &Row<'_>,
    column: usize,
    what: &'static str,
) -> Result<T, StoreError> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| StoreError::Invalid(what))
}

fn workspace(row: &Row<'_>, column: usize) -> rusqlite::Result<Workspace> {
    Ok(Workspace {
        id: WorkspaceId(row.get(column)?),
        name: row.get(column + 1)?,
    })
}

fn account(row: &Row<'_>) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.get(0)?),
        name: row.get(1)?,
        password: row.get::<_, Option<String>>(2)?.map(PasswordHash::stored),
    })
}

/// Columns that [`api_token`] reads.
const API_TOKEN: &str = "api_token.id, api_token.workspace, api_token.account, account.name, api_token.scope, \
                         api_token.prefix, api_token.created, api_token.expires";

fn api_token(row: &Row<'_>) -> Result<ApiToken, StoreError> {
    Ok(ApiToken {
        id: ApiTokenId(row.get(0)?),
        workspace: WorkspaceId(row.get(1)?),
        account: AccountId(row.get(2)?),
        account_name: row.get(3)?,
        scope: word(row, 4, "scope")?,
        prefix: row.get(5)?,
        created: time(row.get(6)?)?,
        expires: optional_time(row.get(7)?)?,
    })
}

fn audit_entry(row: &Row<'_>) -> Result<AuditEntry, StoreError> {
    let action: String = row.get(4)?;
    let mut known = Action::ALL.into_iter();
    let action = known.find(|known| known.as_str() == action);
    Ok(AuditEntry {
        number: row.get(0)?,
        at: time(row.get(1)?)?,
        actor: row.get(2)?,
        address: row.get(3)?,
        action: action.ok_or(StoreError::Invalid("action"))?,
        object: row.get(5)?,
    })
}

fn add_account(
    transaction: &Transaction<'_>,
    by: &Change,
    new: &NewAccount,
) -> Result<Account, StoreError> {
    let id = AccountId::random();
    let password = new.password.as_ref().map(PasswordHash::as_str);
    let added = transaction.execute(
        "INSERT INTO account (id, name, password) VALUES (?1, ?2, ?3) ON CONFLICT (name) DO NOTHING",
        params![id.as_str(), new.name, password],
    )?;
    conflict_unless(added == 1, "an account with this name exists")?;
    put_member(transaction, &new.workspace, &id, new.role)?;
    let object = format!("{}: {}", new.name, new.role);
    audit(
        transaction,
        by,
        Some(&new.workspace),
        Action::AccountAdded,
        &object,
    )?;
    Ok(Account {
        id,
        name: new.name.clone(),
        password: new.password.clone(),
    })
}

fn put_member(
    transaction: &Transaction<'_>,
    workspace: &WorkspaceId,
    account: &AccountId,
    role: Role,
) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO member (workspace, account, role) VALUES (?1, ?2, ?3)
         ON CONFLICT (workspace, account) DO UPDATE SET role = ?3",
        [workspace.as_str(), account.as_str(), role.as_str()],
    )?;
    // The admin who made a reset link may not be allowed to reset the password of the new role.
    people::delete_links(transaction, account)
}

fn account_name(transaction: &Transaction<'_>, account: &AccountId) -> Result<String, StoreError> {
    let sql = "SELECT name FROM account WHERE id = ?1";
    let name = transaction.query_row(sql, [account.as_str()], |row| row.get(0));
    name.optional()?.ok_or(StoreError::NotFound("account"))
}

fn find_link(
    connection: &Connection,
    hash: &SecretHash,
    now: Timestamp,
) -> Result<Option<LinkPurpose>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT workspace, role, account FROM link WHERE hash = ?1 AND expires > ?2",
    )?;
    let mut rows = statement.query(params![hash.0, now.as_microsecond()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some(match row.get(2)? {
        Some(account) => LinkPurpose::Reset {
            account: AccountId(account),
        },
        None => LinkPurpose::Join {
            workspace: WorkspaceId(row.get(0)?),
            role: word(row, 1, "role")?,
        },
    }))
}

/// Invalidates what caches know about credentials.
fn bump_revision(transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE meta SET value = value + 1 WHERE key = 'revision'",
        [],
    )?;
    Ok(())
}

fn audit(
    transaction: &Transaction<'_>,
    by: &Change,
    workspace: Option<&WorkspaceId>,
    action: Action,
    object: &str,
) -> Result<(), StoreError> {
    transaction
        .prepare_cached(
            "INSERT INTO audit (at, actor, address, workspace, action, object) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            by.at.as_microsecond(),
            by.actor,
            by.address,
            workspace.map(WorkspaceId::as_str),
            action.as_str(),
            object
        ])?;
    Ok(())
}

/// Runs a `DELETE ... RETURNING` with one text column.
fn deleted<const N: usize>(
    transaction: &Transaction<'_>,
    sql: &str,
    values: [impl ToSql; N],
) -> rusqlite::Result<Option<String>> {
    transaction
        .query_row(sql, rusqlite::params_from_iter(values), |row| row.get(0))
        .optional()
}

fn conflict_unless(holds: bool, message: &'static str) -> Result<(), StoreError> {
    holds.then_some(()).ok_or(StoreError::Conflict(message))
}

fn found(changed: usize, what: &'static str) -> Result<(), StoreError> {
    (changed > 0)
        .then_some(())
        .ok_or(StoreError::NotFound(what))
}

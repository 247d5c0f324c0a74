//! All words of the pages in both languages. A text cannot exist in one language only.

use gua_board_store::registry::{Role, Scope};
use gua_model::{FaultKind, State};
use gua_render::chart::Language;
use gua_wire::live::ObstacleWord;

use crate::api::settings::Encryption;
use crate::availability::Group;

/// One text in both languages: English, then Korean. `{0}`, `{1}` mark values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Text(&'static str, &'static str);

impl Text {
    pub(crate) fn of(self, language: Language) -> &'static str {
        language.pick(self.0, self.1)
    }

    /// Returns the text with its values. A value is never searched for marks.
    pub(crate) fn with(self, language: Language, values: &[&str]) -> String {
        let mut parts = self.of(language).split('{');
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (number, rest) = part.split_once('}').expect("every mark is closed");
            let number: usize = number.parse().expect("a mark is a number");
            text.push_str(values[number]);
            text.push_str(rest);
        }
        text
    }
}

macro_rules! texts {
    ($($name:ident: $english:literal, $korean:literal;)*) => {
        $(pub(crate) const $name: Text = Text($english, $korean);)*
        #[cfg(test)]
        const ALL: &[(&str, Text)] = &[$((stringify!($name), $name)),*];
    };
}

/// Declares functions that return the text for a value of an enum.
macro_rules! texts_of {
    ($($(#[$doc:meta])* $name:ident($Enum:ident) { $($value:ident: $english:literal, $korean:literal;)* })*) => { $(
        $(#[$doc])*
        pub(crate) fn $name(value: $Enum) -> Text {
            match value { $($Enum::$value => Text($english, $korean),)* }
        }
    )*
        #[cfg(test)]
        const OF_VALUES: &[(&str, Text)] = &[$($((stringify!($value), Text($english, $korean))),*),*];
    };
}

texts! {
    BOARD: "GPU board", "GPU 현황판";
    SKIP: "Skip to content", "본문으로 건너뛰기";
    AVAILABILITY: "Availability", "사용 가능";
    THIS_HOST: "This host", "이 호스트";
    NVGPU_TABLE: "Table of nvgpu", "nvgpu 표";
    WALL_OF: "of {0} GPUs are free", "/ {0} GPU 사용 가능";
    WALL_OF_MODEL: "of {0}", "전체 {0}";
    WALL_IDLE: "{0} GPUs are held but idle, the longest first", "점유 중이지만 사용하지 않는 GPU {0}개, 오래된 순";
    WALL_MORE: "and {0} more", "외 {0}개";
    OTHER_MODELS: "other models", "기타 모델";
    GPUS: "GPUs", "GPU";
    REPORT: "Report", "보고서";
    PEOPLE: "People", "사용자";
    NO_PEOPLE: "Nobody held a GPU in this time.", "이 기간에 GPU를 점유한 사용자가 없습니다.";
    NO_AGENTS: "No agents are configured.", "설정된 에이전트가 없습니다.";
    NO_GPUS: "This host has no GPUs.", "이 호스트에는 GPU가 없습니다.";
    WINDOW_HOUR: "Last hour", "지난 1시간";
    WINDOW_DAY: "Last day", "지난 하루";
    WINDOW_WEEK: "Last week", "지난 1주";
    WINDOW_MONTH: "Last 30 days", "지난 30일";
    SERVERS: "Servers", "서버";
    MEMBERS: "Members", "구성원";
    TOKENS: "API tokens", "API 토큰";
    SETTINGS: "Settings", "설정";
    AUDIT: "Audit log", "감사 기록";
    LOG_IN: "Log in", "로그인";
    LOG_OUT: "Log out", "로그아웃";
    LOG_IN_FIRST: "Log in to see this page.", "이 페이지를 보려면 로그인하세요.";
    NAME: "Name", "이름";
    PASSWORD: "Password", "비밀번호";
    PASSWORD_RULE: "At least 10 characters.", "10자 이상 입력하세요.";
    JOIN: "Create your account", "계정 만들기";
    JOIN_LEAD: "You need the set-up link or invitation that you received. It works once.",
        "받은 설정 링크나 초대 링크가 필요합니다. 링크는 한 번만 사용할 수 있습니다.";
    LINK: "Link", "링크";
    LINK_RULE: "Paste the whole link if this field is empty.", "비어 있으면 링크 전체를 붙여 넣으세요.";
    CREATE: "Create account", "계정 만들기";
    WORKSPACES: "Workspaces", "작업 공간";
    NO_WORKSPACE: "Your account is not a member of any workspace. An admin can invite you.",
        "소속된 작업 공간이 없습니다. 관리자에게 초대를 요청하세요.";
    OTHER_LANGUAGE: "한국어", "English";

    FREE_NOW: "Free now: {0} on {1}; {2} idle-held", "지금 사용 가능: {0} ({1}), 유휴 점유 {2}개";
    NONE_FREE: "No GPU is free now; {0} idle-held", "지금 사용 가능한 GPU가 없습니다. 유휴 점유 {0}개";
    ONE_HOST: "1 host", "서버 1대";
    HOSTS: "{0} hosts", "서버 {0}대";
    NO_HOSTS: "No server has reported yet.", "아직 보고한 서버가 없습니다.";
    NO_MATCH: "No GPU matches this filter.", "조건에 맞는 GPU가 없습니다.";
    FILTER: "Filter", "필터";
    MODEL: "Model", "모델";
    ANY_MODEL: "Any model", "모든 모델";
    AT_LEAST_GB: "At least GB", "최소 메모리(GB)";
    ON_ONE_HOST: "Free GPUs on one host", "한 서버의 빈 GPU 수";
    APPLY: "Apply", "적용";
    CLEAR: "Clear", "초기화";
    TELL_ME: "Tell me when a GPU is free", "GPU가 비면 알림";
    WAITING_FOR_FREE: "Waiting for a free GPU; stop", "빈 GPU를 기다리는 중, 중지";
    KEEP_OPEN: "Keep this page open.", "이 페이지를 열어 두세요.";
    SOON: "A claim ends, or a use ended a moment ago.", "임시 예약이 곧 끝나거나 방금 사용이 끝났습니다.";
    FREE_IN: "claim ends in {0}", "{0} 뒤 임시 예약 종료";
    OTHERS: "{0} others", "기타 {0}개";
    COMPACT: "Compact", "간략히";
    FULL: "Full", "자세히";
    ASK: "Held without being used. Ask the holder.", "점유만 하고 사용하지 않습니다. 점유자에게 문의하세요.";
    GPU: "GPU", "GPU";
    HOST: "Host", "서버";
    STATE: "State", "상태";
    HOLDER: "Holder", "점유자";
    SINCE: "For", "지속 시간";
    UTILISATION: "Utilisation", "사용률";
    LAST_HOUR: "Utilisation, last hour", "최근 1시간 사용률";
    LAST_DAY: "Last 24 hours", "최근 24시간";
    DAY_AXIS: "24 hours ago; each part is the most frequent state of a quarter hour", "24시간 전, 각 칸은 15분 동안 가장 오래 지속된 상태";
    HOURS_OF: "{1} {0} h", "{1} {0}시간";
    NOT_OBSERVED: "not observed", "관측 기록 없음";
    MAINTAINED: "Maintenance: {0}", "점검 중: {0}";
    MAINTAINED_UNTIL: "Maintenance until {1}: {0}", "{1}까지 점검: {0}";
    MAINTENANCE_LEAD: "Its GPUs are shown as unusable, with this note.", "이 서버의 GPU가 안내 문구와 함께 사용 불가로 표시됩니다.";
    NOTE: "Note", "안내 문구";
    ENDS_IN: "Ends after (hours)", "종료까지(시간)";
    BEGIN_MAINTENANCE: "Begin maintenance", "점검 시작";
    END_MAINTENANCE: "End maintenance", "점검 종료";
    SEARCH: "Search by name", "이름으로 찾기";
    NO_HOST_MATCHES: "No server has this name.", "해당 이름의 서버가 없습니다.";
    MEMORY: "Memory", "메모리";
    COMMAND: "Command", "명령";
    COPY: "Copy", "복사";
    AT_LEAST: "at least {0}", "{0} 이상";
    UNKNOWN: "unknown", "알 수 없음";
    HIDDEN: "hidden", "비공개";
    PAGES: "Pages", "페이지";
    PAGE_OF: "Page {0} of {1}", "{1}쪽 중 {0}쪽";
    PREVIOUS: "Previous", "이전";
    NEXT: "Next", "다음";
    LIVE: "Live", "실시간";

    GUIDE: "A demonstration", "데모";
    GUIDE_LEAD: "These 12 servers with 96 GPUs are simulated and change every second. Nothing is kept when the command ends. Look at:",
        "GPU 96개를 가진 서버 12대는 모의 서버이며 매초 바뀝니다. 명령을 끝내면 아무것도 남지 않습니다. 다음을 살펴보세요.";
    GUIDE_HOST: "a server", "서버 한 대";
    GUIDE_HOST_LEAD: "its GPUs, processes and the freshness of its reports", "GPU와 프로세스, 보고의 최신 상태";
    GUIDE_GPU: "a GPU", "GPU 하나";
    GUIDE_GPU_LEAD: "why it has its state, with the readings behind it", "상태의 근거와 측정값";
    GUIDE_FILTER: "a search", "검색";
    GUIDE_FILTER_LEAD: "two free GPUs with 48 GB on one server", "한 서버에서 48 GB 이상인 빈 GPU 두 개";
    GUIDE_SERVERS_LEAD: "add your own server with one command", "명령 하나로 서버 추가";
    GUIDE_MEMBERS_LEAD: "roles and invitations; viewers see no names", "역할과 초대, 열람자에게는 이름이 보이지 않음";

    LAST_REPORT: "Last report", "마지막 보고";
    AGO: "{0} ago", "{0} 전";
    NEVER: "never", "없음";
    STALE: "stopped reporting", "보고 중단";
    SILENT: "agent silent", "에이전트 무응답";
    AGENT: "Agent", "에이전트";
    DRIVER: "Driver", "드라이버";
    WAITING: "Waiting requests", "대기 요청";
    PROCESSES: "Processes", "프로세스";
    NO_PROCESSES: "No process is on this host's GPUs.", "GPU를 사용하는 프로세스가 없습니다.";
    NO_PROCESS: "No process is on this GPU.", "이 GPU를 사용하는 프로세스가 없습니다.";
    PROCESS: "Process", "프로세스";
    PID: "PID", "PID";
    KIND: "Kind", "종류";
    PROBLEMS: "Problems", "문제";
    NO_REPORT: "This server has not reported yet.", "이 서버는 아직 보고하지 않았습니다.";
    WHY: "Why this state", "상태의 근거";
    TEMPERATURE: "Temperature", "온도";
    POWER: "Power", "전력";
    UUID: "UUID", "UUID";
    PART_OF: "Instance of", "상위 GPU";
    CLAIM: "Claim", "임시 예약";
    KEEP: "Keep", "계속 사용";
    KEPT: "kept until {0}", "{0}까지 계속 사용";
    KEPT_WHY: "kept until {0}: {1}", "{0}까지 계속 사용: {1}";
    CLAIM_UNTIL: "{0}, until {1}", "{0}, {1}까지";
    NOT_FREE: "Not free because", "사용할 수 없는 이유";
    IS_FREE: "It is free: nothing prevents its use.", "사용 가능합니다. 막는 것이 없습니다.";
    IS_STALE: "The host stopped reporting. This is its last known state, not its current one.",
        "서버가 보고를 멈췄습니다. 현재 상태가 아니라 마지막으로 알려진 상태입니다.";
    AXIS: "60 minutes ago; the scale is 0 to 100 %", "60분 전, 눈금은 0~100 %";
    NOW: "now", "지금";
    MISSING: "not available ({0})", "값 없음 ({0})";

    ADD_SERVER: "Add a server", "서버 추가";
    ADD_SERVER_LEAD: "Create a key, then run the line that appears on the server.",
        "키를 만든 뒤 표시되는 명령을 서버에서 실행하세요.";
    DISPLAY_NAME: "Display name", "표시 이름";
    OWN_NAME: "the server's own name", "서버의 이름";
    USES: "Number of servers", "서버 수";
    HOURS: "Valid for (hours)", "유효 시간(시간)";
    HOST_NAMES: "Only hosts named", "허용할 호스트 이름";
    TAGS: "Tags", "태그";
    GROUPS: "Groups", "그룹";
    SET_GROUPS: "Set groups", "그룹 설정";
    GROUPS_LEAD: "Only members of these groups see the server. Leave it empty for everyone. Admins see all servers.",
        "이 그룹의 구성원에게만 서버가 보입니다. 비워 두면 모두에게 보입니다. 관리자는 모든 서버를 봅니다.";
    ONLY_FOR: "only for {0}", "{0} 전용";
    NEEDS_APPROVAL: "An admin approves each server", "관리자가 서버마다 승인";
    WAITS_FOR_APPROVAL: "Waits for approval; its reports are refused until then.", "승인 대기 중이며 그때까지 보고가 거부됩니다.";
    APPROVE: "Approve", "승인";
    OTHER_MACHINE: "A second machine, {0}, reports with this server's token and is refused. Enrol it on its own.",
        "다른 장비 {0}이(가) 이 서버의 토큰으로 보고하여 거부되었습니다. 따로 등록하세요.";
    SAME_GPUS: "This server reports the same GPUs as {0}.", "{0}와(과) 같은 GPU를 보고합니다.";
    REPLACE: "Replace that server", "그 서버를 대체";
    REPLACE_OF: "Replace {0}", "{0} 대체";
    CONFIGURED_ALERTS: "Alerts of the board", "보드의 알림";
    CONFIGURATION_MISTAKE: "The board's configuration has an error; see its log. The previous alerts stay in effect.",
        "보드 설정에 오류가 있습니다. 자세한 내용은 로그에 있습니다. 이전 알림이 계속 적용됩니다.";
    LONGER_THAN: "Longer than", "최소 시간";
    QUIET_HOURS: "Quiet hours", "조용한 시간";
    DESTINATION: "Destination", "보낼 곳";
    DEFAULT: "default", "기본값";
    ALERTS: "Last alerts", "최근 알림";
    ALERT_TIME: "Time", "시각";
    ALERT: "Condition", "조건";
    MESSAGE: "Message", "메시지";
    DELIVERY: "Delivery", "전송";
    REFUSED_HOSTS: "Refused in the last day", "지난 하루 동안 거부됨";
    CREATE_KEY: "Create key", "키 만들기";
    KEY_READY: "Run this on the server. The key is shown only now.",
        "서버에서 다음 명령을 실행하세요. 키는 지금만 표시됩니다.";
    KEYS: "Open enrolment keys", "사용 가능한 등록 키";
    OLDER_KEYS: "{0} older keys are not shown. The API lists all of them.", "이전 키 {0}개는 표시되지 않습니다. API에서 모두 볼 수 있습니다.";
    NO_KEYS: "There are no open keys.", "사용 가능한 키가 없습니다.";
    KEY: "Key", "키";
    USES_LEFT: "Uses left", "남은 횟수";
    EXPIRES: "Expires", "만료";
    REVOKE: "Revoke", "해지";
    REVOKE_OF: "Revoke {0}", "{0} 해지";
    REVOKE_HOST_LEAD: "The server can no longer report. Enrol it again to undo this.",
        "이 서버는 더 이상 보고할 수 없습니다. 되돌리려면 다시 등록하세요.";
    RENAME: "Rename", "이름 바꾸기";
    MANAGE: "Manage", "관리";
    FREE_OF: "{0} of {1} free", "{1}개 중 {0}개 사용 가능";
    ENROLLED: "Enrolled", "등록 시각";
    VERSION: "Version", "버전";

    ROLE: "Role", "역할";
    CHANGE_ROLE: "Change role", "역할 변경";
    REMOVE: "Remove", "제거";
    INVITE: "Invite a person", "초대하기";
    INVITE_LEAD: "The link creates one account with this role. It is valid for 7 days.",
        "링크로 이 역할의 계정 하나를 만들 수 있으며 7일 동안 유효합니다.";
    CREATE_LINK: "Create link", "링크 만들기";
    LINK_READY: "Send this link. It is shown only now and works once.",
        "이 링크를 전달하세요. 지금만 표시되며 한 번만 사용할 수 있습니다.";

    ME: "Me", "내 정보";
    SIGN_ON: "Log in with single sign-on", "통합 로그인";
    CONTINUE_SIGN_ON: "Continue to the log-in of your organisation", "조직의 로그인으로 계속";
    RESET_PASSWORD: "Reset password", "비밀번호 재설정";
    CHANGE_PASSWORD: "Change password", "비밀번호 변경";
    PRESENT_PASSWORD: "Current password", "현재 비밀번호";
    NEW_PASSWORD: "New password", "새 비밀번호";
    HELD_NOW: "GPUs held now", "현재 점유한 GPU";
    HOLDS_NOTHING: "None.", "없습니다.";
    USER_NAMES: "User names on servers", "서버의 사용자 이름";
    USER_NAMES_LEAD: "GPUs that these users hold are shown as this member's. An admin can confirm a name, or the member can prove it on the server.",
        "이 사용자들이 점유한 GPU는 이 구성원의 것입니다. 관리자가 확인하거나 구성원이 서버에서 증명합니다.";
    NO_USER_NAMES: "No user name is linked yet.", "연결된 사용자 이름이 없습니다.";
    USER_NAME: "User name", "사용자 이름";
    ALL_HOSTS: "all servers", "모든 서버";
    LINK_NAME: "Link", "연결";
    CONFIRM_NAME: "Link {0} (same name)", "이름이 같은 {0} 확인";
    CREATE_CODE: "Prove a user name", "사용자 이름 증명";
    CODE_READY: "Run this on the server as the user that you want to link. The code is shown only now and is valid for 15 minutes.",
        "연결할 사용자로 서버에서 실행하세요. 코드는 지금만 표시되며 15분 동안 유효합니다.";

    TOKENS_LEAD: "Programs use a token in place of a password. A token never allows more than its account's role.",
        "프로그램은 비밀번호 대신 토큰을 사용합니다. 토큰의 권한은 계정의 역할을 넘지 않습니다.";
    SCOPE: "Scope", "범위";
    SCREEN_READY: "Open this link on the screen. It is shown only now. Anyone who has it can see the state of the GPUs, but no names.",
        "화면에서 이 링크를 여세요. 지금만 표시됩니다. 링크로는 이름 없이 상태만 보입니다.";
    DAYS: "Valid for (days)", "유효 기간(일)";
    WITHOUT_END: "Leave the days empty for a token that never expires. The link of a wall screen must expire.",
        "기간을 비우면 토큰이 만료되지 않습니다. 벽걸이 화면 링크에는 기간이 필요합니다.";
    CREATE_TOKEN: "Create token", "토큰 만들기";
    TOKEN_READY: "Copy the token. It is shown only now.", "토큰을 복사하세요. 지금만 표시됩니다.";
    TOKEN: "Token", "토큰";
    NO_TOKENS: "There are no tokens.", "토큰이 없습니다.";
    CREATED: "Created", "만든 시각";
    ACCOUNT: "Account", "계정";

    TIME: "Time (UTC)", "시각(UTC)";
    ACTOR: "Who", "사용자";
    ACTION: "Action", "동작";
    OBJECT: "Object", "대상";
    ADDRESS: "Address", "주소";
    OLDER: "Older entries", "이전 기록";
    NEWEST: "Newest entries", "최신 기록";

    TITLE: "Title", "제목";
    TITLE_RULE: "Shown at the top of every page.", "모든 페이지 상단에 표시됩니다.";
    NAMES_FROM: "Names of people and processes are shown to", "사용자와 프로세스 이름 공개 범위";
    NAMES_RULE: "Wall screens never show names. A member's own page is visible to that member and to admins.",
        "벽걸이 화면에는 이름이 표시되지 않습니다. 구성원의 개인 페이지는 본인과 관리자만 볼 수 있습니다.";
    SESSION_DAYS: "Log in again after (days)", "다시 로그인해야 하는 주기(일)";
    SESSION_RULE: "A shorter time also applies to people who are logged in now.",
        "기간을 줄이면 현재 로그인한 사용자에게도 적용됩니다.";
    SAVE: "Save", "저장";
    BOARD_FACTS: "This board", "이 현황판";
    BOARD_FACTS_LEAD: "Options of gua board serve, which can be changed when the board is restarted.",
        "gua board serve의 옵션이며 현황판을 다시 시작할 때 바꿀 수 있습니다.";
    URL: "URL", "URL";
    ENCRYPTION: "Encryption", "암호화";
    PIN: "Certificate fingerprint", "인증서 지문";
    PROXIES: "Trusted proxies", "신뢰하는 프록시";
    OIDC: "OpenID Connect provider", "OpenID Connect 제공자";
    USER_HEADER: "Header with the user name", "사용자 이름 헤더";
    NEW_PEOPLE: "People without an account", "계정이 없는 사람";
    JOIN_AS: "become {0} when they log in through the provider or proxy", "제공자나 프록시로 로그인하면 {0} 역할을 받음";
    JOIN_INVITED: "need an invitation", "초대가 필요함";
    STALE_HOSTS: "A server counts as unavailable", "서버를 사용 불가로 보는 기준";
    STALE_RULE: "after 2 minutes without a report, or 2.5 times its own interval if that is longer", "2분 동안, 또는 보고 주기의 2.5배 동안 보고가 없을 때(더 긴 쪽)";
    NOT_SET: "none", "없음";
    DATA: "Data", "데이터";
    DATA_LEAD: "Snapshots, which contain user names, are deleted after {0} hours; the newest one of each server and the audit log are kept. Back up and check the data on the board's host:",
        "사용자 이름이 있는 스냅샷은 {0}시간 뒤 삭제되며, 서버별 최신 스냅샷과 감사 기록은 유지됩니다. 현황판 호스트에서 데이터를 백업하고 점검하세요.";
    NO_ENTRIES: "There are no entries.", "기록이 없습니다.";

    REFUSED: "Not allowed", "허용되지 않음";
    NOT_FOUND: "Not found", "찾을 수 없음";
    INVALID: "The request is not valid", "잘못된 요청";
    TRY_LATER: "Try again later", "나중에 다시 시도하세요";
    FAILED: "The request failed", "요청을 처리하지 못했습니다";
    BACK: "Back to the start page", "시작 페이지로";
    WRONG_PASSWORD: "the name or the password is wrong", "이름 또는 비밀번호가 틀렸습니다";
}

texts_of! {
    state(State) {
        Active: "active", "활성";
        Stalled: "stalled", "정체";
        Ghost: "ghost", "유령";
        IdleHeld: "idle-held", "유휴 점유";
        OrphanHeld: "orphan-held", "고아 점유";
        HeldUnknown: "held-unknown", "점유(사용률 미상)";
        TrulyIdle: "free", "비어 있음";
        Unobserved: "unobserved", "미관측";
    }
    /// Why a GPU is in a state.
    reason(State) {
        Active: "Its utilisation is at or over the threshold.", "사용률이 기준 이상입니다.";
        Stalled: "Its utilisation is high, but its power stays at the idle floor.", "사용률은 높지만 전력이 유휴 수준입니다.";
        Ghost: "Its utilisation is high, but no process is on it.", "사용률은 높지만 프로세스가 없습니다.";
        IdleHeld: "A process holds memory on it, and its utilisation is below the threshold.",
            "프로세스가 메모리를 점유하지만 사용률이 기준보다 낮습니다.";
        OrphanHeld: "Memory is allocated to processes that no longer exist.", "이미 끝난 프로세스에 메모리가 할당되어 있습니다.";
        HeldUnknown: "A process holds it, but the driver does not report its utilisation.",
            "프로세스가 점유하지만 드라이버가 사용률을 제공하지 않습니다.";
        TrulyIdle: "No process holds it.", "점유한 프로세스가 없습니다.";
        Unobserved: "It could not be read.", "읽을 수 없었습니다.";
    }
    group(Group) {
        Free: "Free", "사용 가능";
        IdleHeld: "Idle-held", "유휴 점유";
        FreeSoon: "Free soon", "곧 사용 가능";
        InUse: "In use", "사용 중";
        Unusable: "Unusable", "사용 불가";
    }
    obstacle(ObstacleWord) {
        Divided: "it is divided into instances, which are listed instead", "인스턴스로 나뉘어 있어 인스턴스가 대신 표시됩니다";
        Unobserved: "it could not be observed", "관측할 수 없음";
        Held: "a process holds it", "프로세스가 점유 중";
        Busy: "it is busy", "작업 중";
        MemoryUsed: "too much of its memory is used", "메모리 사용량이 많음";
        Unhealthy: "it has a fault", "결함 있음";
        UsedRecently: "it was in use a moment ago", "방금까지 사용됨";
        Claimed: "it is claimed", "임시 예약됨";
        Awaited: "it is kept for a waiting request", "대기 요청을 위해 보류됨";
    }
    scope(Scope) {
        Screen: "wall screen, without names", "벽걸이 화면(이름 없음)";
        Read: "read", "읽기";
        Write: "read and write", "읽기와 쓰기";
    }
    /// People who see names, by the lowest role that sees them.
    names_from(Role) {
        Viewer: "everyone with an account", "계정이 있는 모든 사람";
        Member: "members, admins and owners", "구성원, 관리자, 소유자";
        Admin: "admins and owners", "관리자, 소유자";
        Owner: "owners", "소유자";
    }
    encryption(Encryption) {
        Certificate: "TLS with the certificate of --certificate", "TLS(--certificate 인증서)";
        SelfSigned: "TLS with a self-signed certificate, which servers pin", "TLS(서버가 고정하는 자체 서명 인증서)";
        Proxy: "added by the proxy", "프록시가 추가";
        None: "none: the board is on loopback", "없음(루프백 전용)";
    }
}

/// Returns a fault in words; gua-model has the English ones.
pub(crate) fn health(health: FaultKind) -> Text {
    let korean = match health {
        FaultKind::Lost => "드라이버가 GPU를 잃음",
        FaultKind::Xid => "하드웨어의 Xid 오류",
        FaultKind::UncorrectedErrors => "복구되지 않은 메모리 오류",
        FaultKind::RemapFailed => "메모리 행 대체 실패",
        FaultKind::RemapPending => "다음 리셋 때 메모리 행 대체 예정",
        FaultKind::RetirementPending => "다음 재부팅 때 메모리 페이지 제외 예정",
        FaultKind::Hot => "과열로 속도 저하",
        FaultKind::SlowedDown => "하드웨어에 의한 속도 저하",
    };
    Text(health.in_words(), korean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_have_every_text_with_the_same_values() {
        let marks = |text: &str| {
            let mut found: Vec<String> = text
                .split('{')
                .skip(1)
                .map(|part| part.split_once('}').unwrap().0.to_owned())
                .collect();
            found.sort();
            found
        };
        for (name, text) in ALL.iter().chain(OF_VALUES) {
            let (english, korean) = (text.of(Language::English), text.of(Language::Korean));
            assert!(!english.is_empty() && !korean.is_empty(), "{name}");
            assert_eq!(marks(english), marks(korean), "{name}");
        }
    }

    #[test]
    fn a_value_is_not_searched_for_marks() {
        assert_eq!(AGO.with(Language::English, &["{1}"]), "{1} ago");
        assert_eq!(PAGE_OF.with(Language::Korean, &["1", "2"]), "2쪽 중 1쪽");
    }
}

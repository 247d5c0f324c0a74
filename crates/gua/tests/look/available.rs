//! `gua available` as scripts use it.

use super::Machine;
use crate::GUA;

fn lab() -> Machine {
    Machine::new(
        "[clock]\nat = 100\n\
         [[gpu]]\nname = \"NVIDIA A100\"\nuuid = \"GPU-a\"\n[[gpu.process]]\npid = ONE\nmemory_mib = 2048\n\
         [[gpu]]\nname = \"NVIDIA A100\"\nuuid = \"GPU-b\"\npower_w = 80\n\
         [[gpu]]\nname = \"NVIDIA RTX A6000\"\nuuid = \"GPU-c\"\npower_w = 20\nmemory_total_mib = 49140\n\
         [[gpu]]\nname = \"NVIDIA RTX A6000\"\nuuid = \"GPU-d\"\npower_w = 50\nmemory_total_mib = 49140\nutil = 90\n",
    )
}

#[track_caller]
fn check(host: &Machine, line: &str, code: i32, stdout: &str) -> String {
    let ended = host.gua(&format!("available {line}"));
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (code, stdout),
        "available {line}: {}",
        ended.stderr
    );
    ended.stderr
}

#[test]
fn free_gpus_are_printed_for_scripts_and_holders_of_the_others_for_people() {
    let host = lab();
    let output = check(&host, "", 0, "1,2\n");
    assert!(
        output.contains(&format!(" (pid {}, for ", host.one.pid())),
        "{output}"
    );
    assert!(output.contains("gpu 3 is not free: ghost"), "{output}");
    assert_eq!(check(&host, "-q", 0, "1,2\n"), "");
    check(&host, "-l 1", 0, "1\n");
    check(&host, "-l 0", 0, "1,2\n");
    check(&host, "--count 2", 0, "1,2\n");
    let output = check(&host, "--count 9", 3, "");
    let said = "gua available: 9 wanted, but this host has only 4 GPUs\n";
    assert!(output.ends_with(said), "{output}");
    check(&host, "--count 1 --order power", 0, "2\n");
    check(&host, "--order -power", 0, "1,2\n");
    check(
        &host,
        "--order -free-memory,index --uuid",
        0,
        "GPU-b,GPU-c\n",
    );
    check(&host, "--gpu-model a6000", 0, "2\n");
    check(&host, "--min-free-memory 60GB", 0, "1\n");
    check(&host, "--max-util 5", 0, "1,2\n");
}

#[test]
fn unhealthy_gpus_are_offered_on_request_only_and_always_by_the_rule_of_nvgpu() {
    let host = Machine::new(
        "[clock]\nat = 100\n\
         [[gpu]]\necc = true\necc_uncorrected = 2\n\
         [[gpu]]\nremap_pending = 1\n\
         [[gpu]]\nthrottle_reasons = 64\n\
         [[gpu]]\necc = true\n",
    );
    let output = check(&host, "", 0, "3\n");
    for reason in [
        "gpu 0 is unhealthy (2 uncorrected memory errors); --unhealthy includes it",
        "gpu 1 is unhealthy (a memory row is remapped at the next reset); --unhealthy includes it",
        "gpu 2 is unhealthy (slowed down by heat); --unhealthy includes it",
    ] {
        assert!(output.contains(reason), "{output}");
    }
    assert_eq!(check(&host, "--unhealthy", 0, "0,1,2,3\n"), "");
    check(&host, "--rule nvgpu", 0, "0,1,2,3\n");
    assert_eq!(host.named("nvgpu", "available").stdout, "0,1,2,3\n");
    let output = check(&host, "--count 2 --claim 1m --wait 1s", 3, "");
    assert!(output.contains("2 wanted"), "{output}");
    let listing = host.listing();
    let health = |gpu: usize| listing["gpus"][gpu]["health"].as_str().unwrap_or_default();
    assert_eq!(
        [0, 1, 2, 3].map(health),
        ["uncorrected-errors", "remap-pending", "hot", "ok"]
    );
    let text = host.gua("list").stdout;
    assert!(text.contains("ECC 2") && text.contains("remap"), "{text}");
}

#[test]
fn an_xid_error_in_the_kernel_log_is_a_fault_that_every_surface_shows() {
    let host = Machine::new("[[gpu]]\npci = \"0000:3b:00.0\"\n[[gpu]]\n");
    host.write(
        "kmsg",
        "4,7,5000000,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n",
    );
    let output = check(&host, "", 0, "1\n");
    assert!(
        output.contains("gpu 0 is unhealthy (Xid 79 at 20"),
        "{output}"
    );
    let listing = host.listing();
    let gpu = &listing["gpus"][0];
    assert_eq!((&gpu["health"], &gpu["xid"]), (&"xid".into(), &79.into()));
    let at = gpu["xid_at"].as_str().unwrap();
    for line in ["list", "top --once"] {
        let shown = host.gua(line).stdout;
        assert!(shown.contains("Xid 79"), "{line}: {shown}");
    }
    let explained = host.gua("explain 0").stdout;
    assert!(
        explained.contains(&format!("Xid 79 at {}", &at[..10])),
        "{explained}"
    );
    let metrics = host.gua("metrics").stdout;
    let is_xid = |line: &&str| line.contains("gua_gpu_fault=\"xid\"");
    let series: Vec<&str> = metrics.lines().filter(is_xid).collect();
    assert_eq!(series.len(), 2, "{metrics}");
    assert!(
        series[0].ends_with(" 1") && series[1].ends_with(" 0"),
        "{series:?}"
    );
    let doctor = host.gua("doctor").stdout;
    assert!(doctor.contains("Xid 79"), "{doctor}");
}

#[test]
fn with_no_free_gpu_it_prints_nothing_and_exits_with_3() {
    let host = lab();
    let output = check(&host, "--count 3", 3, "");
    assert!(output.contains("2 free, 3 wanted"), "{output}");
    let output = check(&host, "--gpu-model h100", 3, "");
    assert!(
        output.contains("no GPU of this host is called `h100`"),
        "{output}"
    );
    let output = check(&host, "--gpu-model h100 --claim 1m", 3, "");
    assert!(
        output.contains("no GPU of this host is called `h100`"),
        "{output}"
    );
    let output = check(&host, "--gpu-model a6000 --min-free-memory 60GB", 3, "");
    assert!(output.contains("no GPU is free"), "{output}");
    check(&host, "--gpu-model h100 --rule nvgpu", 0, "\n");
    let script = format!(
        "CUDA_VISIBLE_DEVICES=$({GUA} available -q --gpu-model h100) || exit; echo went on"
    );
    let output = host.command("sh").args(["-c", &script]).output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(3), Vec::new()));
}

/// `export NAME=$(COMMAND)` succeeds even if the command fails, so that `|| exit` after it never stops a script.
#[test]
fn documented_scripts_stop_if_no_gpu_is_free() {
    let help = crate::host("").fine("available --help");
    let documents = [
        help.as_str(),
        include_str!("../../../../README.md"),
        include_str!("../../../../README.ko.md"),
        include_str!("../../../../docs/first-ten-minutes.md"),
        include_str!("../../../../docs/find-a-gpu.md"),
        include_str!("../../../../docs/claims.md"),
    ];
    for document in documents {
        assert!(
            document.contains("VISIBLE_DEVICES=$(gua available"),
            "{document}"
        );
        assert!(
            !document.contains("export CUDA_VISIBLE_DEVICES=$("),
            "{document}"
        );
    }
}

#[test]
fn processes_of_a_user_can_be_ignored() {
    let host = lab();
    let me = host.command("id").arg("-u").output().unwrap();
    let me = String::from_utf8(me.stdout).unwrap();
    check(
        &host,
        &format!("--account-as-free {}", me.trim()),
        0,
        "0,1,2\n",
    );
    let output = check(&host, "--account-as-free nobody-at-all", 0, "1,2\n");
    let warning = "unknown user `nobody-at-all`";
    assert!(output.contains(warning), "{output}");
    let output = host.gua("available --account-as-free root").stderr;
    assert!(!output.contains("unknown user"), "{output}");
}

#[test]
fn json_gives_the_reasons() {
    let host = lab();
    let ended = host.gua("available --json -q");
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["available"][0]["uuid"], "GPU-b");
    assert_eq!(answer["not_available"][0]["why"], "held");
    assert_eq!(
        answer["not_available"][0]["holders"][0]["pid"],
        host.one.pid()
    );
    let key = "used_seconds_ago";
    assert_eq!(
        answer["not_available"][0].get(key),
        Some(&serde_json::Value::Null)
    );
}

#[test]
fn usage_errors_are_refused() {
    let host = lab();
    for line in [
        "--order watts",
        "--min-free-memory 20",
        "--max-util 101",
        "--count 0",
        "--count 1 -l 1",
        "--free-for soon",
        "--rule best",
    ] {
        let ended = host.gua(&format!("available {line}"));
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{line}");
    }
}

#[test]
fn mig_instances_are_offered_by_name_after_whole_gpus() {
    let host = Machine::new(
        "[[gpu]]\n[[gpu.mig]]\nuuid = \"MIG-a\"\n[[gpu.mig]]\nuuid = \"MIG-b\"\n[[gpu.mig.process]]\npid = ONE\nmemory_mib = 512\n[[gpu]]\nuuid = \"GPU-w\"\n",
    );
    check(&host, "", 0, "1\n");
    check(&host, "--uuid", 0, "GPU-w,MIG-a\n");
    let output = check(&host, "--count 2", 3, "");
    assert!(
        output.contains("1 free, 2 wanted")
            && output.contains("1 MIG instance is free; --uuid includes it"),
        "{output}"
    );
}

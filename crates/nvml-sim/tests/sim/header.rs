//! Our records and prototypes compared with the driver's own header by a C compiler.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools;

/// Compiles a C program with the driver's header; the error is the compiler's output.
fn compile(program: &str, folder: &Path) -> Result<PathBuf, String> {
    let source = folder.join("check.c");
    let object = folder.join("check.o");
    std::fs::write(&source, program).unwrap();
    let compiled = Command::new("cc")
        .args([
            "-std=gnu11",
            "-Werror",
            "-Wno-deprecated-declarations",
            "-c",
            "-o",
        ])
        .arg(&object)
        .arg("-I")
        .arg(tools::header_folder())
        .arg(&source)
        .output()
        .expect("cc is not on PATH: install a C compiler");
    if compiled.status.success() {
        Ok(object)
    } else {
        Err(String::from_utf8_lossy(&compiled.stderr).into_owned())
    }
}

#[test]
fn records_and_prototypes_match_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let object = compile(&c_program(), folder.path()).unwrap_or_else(|said| panic!("{said}"));
    let program = folder.path().join("check");
    let linked = Command::new("cc")
        .arg("-o")
        .arg(&program)
        .arg(object)
        .output()
        .unwrap();
    assert!(
        linked.status.success(),
        "{}",
        String::from_utf8_lossy(&linked.stderr)
    );
    let output = Command::new(program).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected());
}

#[test]
fn a_wrong_prototype_or_an_invented_function_is_detected() {
    let check = |line: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let said = compile(&format!("{}{line}\n", c_program()), folder.path()).unwrap_err();
        assert!(said.contains(expected), "{said}");
    };
    check(
        "nvmlReturn_t nvmlDeviceGetCount_v2(int *);",
        "conflicting types for",
    );
    check(
        "nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t, unsigned long long *);",
        "conflicting types for",
    );
    check(
        "typedef __typeof__(nvmlDeviceGetWishes) known;",
        "nvmlDeviceGetWishes",
    );
}

#[test]
fn the_long_record_of_535_54_is_called_detail_in_later_headers() {
    let records = nvml_sim::records();
    let detail = records
        .iter()
        .find(|record| record.c_name == "nvmlProcessDetail_v1_t")
        .unwrap();
    let last = detail.fields.last().unwrap();
    assert_eq!((detail.size, *last), (32, ("usedGpuCcProtectedMemory", 24)));
}

/// C program that uses each name before redeclaring it, so that a name missing from the header is an error, and
/// declares it as we export it, so that another type is an error.
fn c_program() -> String {
    let mut text = String::from(
        "#define NVML_NO_UNVERSIONED_FUNC_DEFS\n#include <nvml.h>\n#include <stddef.h>\n#include <stdio.h>\n",
    );
    for function in nvml_sim::functions() {
        writeln!(text, "typedef __typeof__({0}) known_{0};", function.name).unwrap();
        writeln!(text, "{}", function.prototype()).unwrap();
    }
    // The only function that does not return a code.
    text.push_str(
        "typedef __typeof__(nvmlErrorString) known;\nconst char *nvmlErrorString(unsigned int);\n",
    );
    text.push_str("int main(void) {\n");
    for record in nvml_sim::records() {
        let name = record.c_name;
        writeln!(text, "printf(\"{name} %zu\\n\", sizeof({name}));").unwrap();
        for (field, _) in &record.fields {
            writeln!(
                text,
                "printf(\"{name}.{field} %zu\\n\", offsetof({name}, {field}));"
            )
            .unwrap();
        }
    }
    text.push_str("return 0;\n}\n");
    text
}

fn expected() -> String {
    let mut text = String::new();
    for record in nvml_sim::records() {
        writeln!(text, "{} {}", record.c_name, record.size).unwrap();
        for (field, offset) in &record.fields {
            writeln!(text, "{}.{field} {offset}", record.c_name).unwrap();
        }
    }
    text
}

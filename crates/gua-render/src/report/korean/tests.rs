use super::*;

#[test]
fn a_gpu_is_named_by_its_number_or_by_what_tells_its_uuid_apart() {
    let check = |index, uuid, label: &str| assert_eq!(column_label(index, uuid), label);
    check(Some(3), "GPU-1234abcd-00", "#3");
    check(None, "GPU-1234abcd-00", "1234ab");
    check(None, "odd", "odd");
}

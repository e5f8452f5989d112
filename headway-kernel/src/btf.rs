//! What type information (BTF) says: how this kernel's interface for congestion controls differs from other
//! versions', and where our object files have the members of the table that they fill.

use libbpf_rs::btf::types::{FuncProto, MemberAttr, Ptr, Struct, StructMember};
use libbpf_rs::btf::{Btf, ReferencesType, TypeId};

use crate::error::{Context, Error, Result};
use crate::programs::{NAME_MAX, Program};

/// Where the kernel shows its types.
pub(crate) const BTF_FILE: &str = "/sys/kernel/btf/vmlinux";

/// The kernel's type around our table; it exists only where BPF may implement that table.
const WRAPPER: &str = "bpf_struct_ops_tcp_congestion_ops";

/// The parts of the kernel's interface that differ between versions.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    /// Members of `struct tcp_congestion_ops`.
    pub(crate) members: Vec<String>,
    /// From 6.10 on `cong_control` is given `ack` and `flag` too.
    pub(crate) cong_control_has_ack: bool,
    /// From 6.4 on a registration can hang on a file descriptor, so that the kernel ends it with the process.
    pub(crate) has_links: bool,
    /// Where a registered table's value, as the kernel shows it, names the program behind `init`; in bytes.
    pub(crate) init_at: usize,
}

impl Api {
    /// Reads it from the running kernel.
    pub(crate) fn of_kernel() -> Result<Api> {
        let btf = Btf::from_path(BTF_FILE).with_context(|| format!("cannot read {BTF_FILE}"))?;
        let value = btf.type_by_name::<Struct>(WRAPPER);
        let value = value.context("this kernel takes no congestion controls from BPF")?;
        let ops: Struct = btf.type_by_name("tcp_congestion_ops").context("no tcp_congestion_ops in BTF")?;
        let cong_control = member(&ops, "cong_control").and_then(|m| prototype(&btf, m.ty));
        let cong_control = cong_control.context("no cong_control in BTF")?;
        Ok(Api {
            init_at: offset(member(&value, "data"))? + offset(member(&ops, "init"))?,
            members: ops.iter().filter_map(|m| Some(m.name?.to_string_lossy().into_owned())).collect(),
            cong_control_has_ack: cong_control.iter().count() == 4,
            has_links: btf.type_by_name::<Struct>("bpf_struct_ops_link").is_some(),
        })
    }
}

fn member<'a>(of: &'a Struct<'a>, name: &str) -> Option<StructMember<'a>> {
    of.iter().find(|m| m.name.is_some_and(|n| n == name))
}

/// Where a member begins, in bytes.
fn offset(member: Option<StructMember<'_>>) -> Result<usize> {
    match member.map(|m| m.attr) {
        Some(MemberAttr::Normal { offset }) => Ok(offset as usize / 8),
        _ => Err(Error::new("no place for `init` in BTF")),
    }
}

/// The type of the function that a member points to.
fn prototype<'a>(btf: &'a Btf<'_>, member: TypeId) -> Option<FuncProto<'a>> {
    let pointer: Ptr<'a> = btf.type_by_id(member)?;
    FuncProto::try_from(pointer.referenced_type()).ok()
}

/// Where an object file's own `struct tcp_congestion_ops` has its members.
pub(crate) struct Layout {
    /// Name, offset in bytes, and whether it is a callback.
    members: Vec<(String, usize, bool)>,
}

impl Layout {
    pub(crate) fn of_object(program: &Program) -> Result<Layout> {
        let btf = Btf::from_raw(program.name, program.object).context("cannot read the BPF object")?;
        let btf = btf.context("the BPF object has no BTF")?;
        let ops: Struct =
            btf.type_by_name("tcp_congestion_ops").context("the BPF object has no table type")?;
        let member = |m: StructMember<'_>| {
            let MemberAttr::Normal { offset } = m.attr else { return None };
            let name = m.name?.to_string_lossy().into_owned();
            Some((name, offset as usize / 8, btf.type_by_id::<Ptr>(m.ty).is_some()))
        };
        Ok(Layout { members: ops.iter().filter_map(member).collect() })
    }

    /// Writes the name into the table, and empties the callbacks that this kernel does not know: loading fails
    /// otherwise.
    pub(crate) fn adapt(&self, table: &mut [u8], name: &str, api: &Api) -> Result<()> {
        for (member, at, is_callback) in &self.members {
            if member == "name" {
                let field = table.get_mut(*at..*at + NAME_MAX + 1).context("the table is too short")?;
                field.fill(0);
                field[..name.len()].copy_from_slice(name.as_bytes());
            } else if *is_callback && !api.members.contains(member) {
                table.get_mut(*at..*at + 8).context("the table is too short")?.fill(0);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callbacks_unknown_to_the_kernel_are_left_empty() {
        let members = ["init", "cong_control", "name"].map(String::from).to_vec();
        let api = Api { members, cong_control_has_ack: false, has_links: false, init_at: 0 };
        let layout = Layout {
            members: vec![
                ("init".into(), 0, true),
                ("cwnd_event".into(), 8, true),
                ("name".into(), 16, false),
            ],
        };
        let mut table = [1u8; 32];
        layout.adapt(&mut table, "bbr1", &api).unwrap();
        assert_eq!(&table[..16], &[1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(&table[16..], b"bbr1\0\0\0\0\0\0\0\0\0\0\0\0");
        assert!(layout.adapt(&mut table[..20], "bbr1", &api).is_err());
    }
}
